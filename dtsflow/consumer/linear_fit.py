"""A straight line through the origin, by least squares over all rows so far."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.arena.batch import Batch
from dtsflow.configurable import configurable
from dtsflow.consumer.consumer import Setting
from dtsflow.errors import ConfigError

Numbers = npt.NDArray[np.float64]


@configurable
class LinearFit:
    """Find the slope of y = slope * x from two fields of a set of records.

    The slope of least squares is sum(x * y) / sum(x * x); both sums grow with every
    batch, in FP64. The report has it as `train.slope`.

    Attributes:
        x: Name of the field that is known.
        y: Name of the field that follows from it, of the same shape.
    """

    x: str = "x"
    y: str = "y"

    def init(self, setting: Setting) -> "Line":
        """Begin with no row.

        Raises:
            ConfigError: A phase has no such fields, or they differ in shape.
        """
        for name, phase in setting.phases.items():
            shapes = {field.name: field.shape for field in phase.fields}
            if not {self.x, self.y} <= shapes.keys() or shapes[self.x] != shapes[self.y]:
                has = ", ".join(f"{field}{list(shape)}" for field, shape in shapes.items())
                raise ConfigError(
                    f"consumer.step: LinearFit takes two fields of one shape, {self.x!r} and "
                    f"{self.y!r}, and the batches of {name} have {has or 'images'}."
                )
        return Line(self)


class Line:
    """The sums that the slope follows from; satisfies Learner and Telling."""

    def __init__(self, config: LinearFit) -> None:
        self._config = config
        self._xx = self._xy = 0.0

    def step(self, batch: Batch) -> float:
        """Add the valid rows; answers their mean squared error with the new slope."""
        x, y = self._rows(batch)
        self._xx += float((x * x).sum())
        self._xy += float((x * y).sum())
        return float(np.mean(self._errors(x, y) ** 2)) if len(x) else 0.0

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        """The sum of the squared errors."""
        return {"squared_error": float((self._errors(*self._rows(batch)) ** 2).sum())}

    def results(self) -> Mapping[str, Any]:
        """The slope."""
        return {"slope": self._slope}

    def state(self) -> bytes:
        """Both sums, as JSON."""
        return json.dumps([self._xx, self._xy]).encode()

    def load(self, state: bytes) -> None:
        """Go on with them."""
        self._xx, self._xy = json.loads(state)

    @property
    def _slope(self) -> float:
        return self._xy / self._xx if self._xx else 0.0

    def _errors(self, x: Numbers, y: Numbers) -> Numbers:
        return y - self._slope * x

    def _rows(self, batch: Batch) -> tuple[Numbers, Numbers]:
        batch = batch.on_host()
        x, y = (batch.fields[name][batch.valid] for name in (self._config.x, self._config.y))
        return x.astype(np.float64), y.astype(np.float64)
