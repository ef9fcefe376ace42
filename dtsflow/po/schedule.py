"""A number that changes from epoch to epoch, and operations with such attributes."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Final, Self

from pydantic import Field, StrictInt, ValidationError, model_validator

from dtsflow.config.configurable import configurable, resolve_target
from dtsflow.errors import ConfigError
from dtsflow.po.normalize import Normalize

Number = StrictInt | Annotated[float, Field(strict=True, allow_inf_nan=False)]
Value = Number | tuple[Number, ...]
"""What an attribute of an operation takes: a number, or several, as a range has."""

MOST_EPOCHS: Final = 10_000  # each may have operations of its own


@configurable
class Schedule:
    """A value for each epoch: the attribute of an operation that it stands for.

    Each of `points` is an epoch and the value from there on; the first is epoch 0.

    Attributes:
        points: Epochs and their values, in order: numbers, or as many in each point.
        linear: Go from each point to the next in a straight line, an equal step each
            epoch; whole numbers are rounded, half to even.
        multiple: Round a line of whole numbers to multiples of this one.
    """

    points: Annotated[tuple[tuple[StrictInt, Value], ...], Field(min_length=1)]
    linear: bool = False
    multiple: Annotated[int, Field(ge=1, strict=True)] = 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        epochs = [epoch for epoch, _ in self.points]
        if min(epochs) < 0:
            raise ValueError(f"epoch {min(epochs)} is below 0. Epochs count from 0.")
        if epochs[0] != 0:
            raise ValueError(
                f"the first point is of epoch {epochs[0]}, so the epochs before it have no value. "
                "Begin with a point of epoch 0."
            )
        for one, other in pairwise(epochs):
            if other <= one:
                raise ValueError(
                    f"epoch {other} comes after epoch {one}. Give the points in order, each epoch "
                    "once."
                )
        if len({len(value) if isinstance(value, tuple) else 0 for _, value in self.points}) > 1:
            raise ValueError("its points have different numbers of values. Give as many in each.")
        if epochs[-1] > MOST_EPOCHS and self.linear:
            raise ValueError(
                f"a line to epoch {epochs[-1]} has a value for each epoch before, and "
                f"{MOST_EPOCHS} are allowed. Give steps, or an earlier end."
            )
        self._check_multiple()
        return self

    def _check_multiple(self) -> None:
        if self.multiple == 1:
            return
        values = [part for _, value in self.points for part in _parts(value)]
        if not (self.linear and all(isinstance(part, int) for part in values)):
            raise ValueError(
                f"multiple is {self.multiple}, and it is for lines of whole numbers. Leave it out, "
                "or give linear: true and whole numbers."
            )
        for part in values:
            if part % self.multiple:
                raise ValueError(
                    f"{part} is no multiple of {self.multiple}, as all values shall be. Give "
                    "points that are."
                )

    def at(self, epoch: int) -> Value:
        """Return the value in an epoch from 0 on."""
        place = bisect_right(self.points, epoch, key=lambda point: point[0]) - 1
        first, value = self.points[place]
        if not self.linear or place + 1 == len(self.points):
            return value
        end, aim = self.points[place + 1]
        way = Fraction(epoch - first, end - first)
        if isinstance(value, tuple):
            assert isinstance(aim, tuple)
            return tuple(self._between(*both, way) for both in zip(value, aim, strict=True))
        assert not isinstance(aim, tuple)
        return self._between(value, aim, way)

    def _between(self, value: Number, aim: Number, way: Fraction) -> Number:
        # Exact, and rounded once, so that no machine rounds it differently.
        exact = Fraction(value) + (Fraction(aim) - Fraction(value)) * way
        if isinstance(value, int) and isinstance(aim, int):
            return round(exact / self.multiple) * self.multiple
        return float(exact)

    @property
    def epochs(self) -> tuple[int, ...]:
        """Return the epochs from which the value may be another one, The first is 0."""
        if self.linear:
            return tuple(range(self.points[-1][0] + 1))
        return tuple(epoch for epoch, _ in self.points)


def _parts(value: Value) -> tuple[Number, ...]:
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A stand-in in a chain for an operation with schedules among its attributes.

    Attributes:
        stages: Epochs, 0 first and in order, and the operation from there on.
    """

    stages: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, operation: str, values: Mapping[str, Any]) -> "Scheduled":
        """Make every operation that the class named `operation` becomes in turn.

        `values` are its attributes, those that change as `Schedule`.

        Raises:
            ConfigError: The class refuses the values of some epoch, or is Normalize,
                whose results all who use the pixels count on.
        """
        target = resolve_target(operation, operation)
        if target is Normalize:
            raise ConfigError(
                "Normalize is the same in all epochs, for a model counts on it. Give its values "
                "without a schedule."
            )
        schedules = {name: one for name, one in values.items() if isinstance(one, Schedule)}
        stages: list[tuple[int, Any]] = []
        for epoch in sorted({epoch for one in schedules.values() for epoch in one.epochs}):
            current = {name: one.at(epoch) for name, one in schedules.items()}
            made = _made(target, {**values, **current}, epoch)
            if not stages or made != stages[-1][1]:
                stages.append((epoch, made))
        return cls(tuple(stages))

    def at(self, epoch: int) -> Any:
        """Return the operation in an epoch from 0 on."""
        place = bisect_right(self.stages, epoch, key=lambda stage: stage[0])
        return self.stages[place - 1][1]


def _made(target: type[Any], values: Mapping[str, Any], epoch: int) -> Any:
    try:
        return target(**values)
    except ValidationError as error:
        refusals = error.errors(include_url=False, include_context=False)
        told = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or target.__name__}: {one['msg']}" for one in refusals
        )
        raise ConfigError(f"from epoch {epoch} on, {told}.") from error
