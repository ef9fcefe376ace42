"""An operation whose attributes change from epoch to epoch."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dtsflow.configurable import resolve_target
from dtsflow.errors import ConfigError
from dtsflow.po.normalize import Normalize
from dtsflow.po.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What stands in a chain for an operation with schedules among its attributes.

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
        """The operation in an epoch from 0 on."""
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
