"""What a run plans beside its input, and how much memory it may plan for."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.declared import Declared
from dtsflow.memory.limit import memory_limit
from dtsflow.memory.plan_config import PlanConfig


@configurable
class Budget:
    """Refuse a plan of more than `limit` bytes; name what it holds beside the input.

    Attributes:
        limit: Bytes, or `auto`: what the machine and its control group allow.
        tensors: Further tensors, so that one plan covers a device.
        plan_config: The training step that the plan is for: the plan then has its
            baseline tensors too, and only its regions. Nothing: any region, no
            baseline.
    """

    limit: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    tensors: tuple[Declared, ...] = ()
    plan_config: PlanConfig | None = None

    def allowed_bytes(self) -> int:
        """The limit in bytes."""
        return memory_limit() if self.limit == "auto" else self.limit

    def check(self, entries: Mapping[str, int]) -> None:
        """Refuse `entries` (bytes by name) when their sum is over the limit.

        Raises:
            MemoryPlanError: Both numbers, and the biggest entries.
        """
        needed, allowed = sum(entries.values()), self.allowed_bytes()
        if needed > allowed:
            biggest = sorted(entries.items(), key=lambda entry: -entry[1])[:3]
            raise MemoryPlanError(
                f"The plan needs {needed:,} bytes and memory.limit is {allowed:,}. The biggest "
                f"entries: {', '.join(f'{name} {size:,}' for name, size in biggest)}. Choose a "
                "smaller batch_size or data set, or raise memory.limit."
            )
