"""Which process of a run this is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rank:
    """Process `index` of `size`; on its node it is `local_index` of `local_size`.

    Attributes:
        cpu_share: CPUs that are this process's part of its node's; None: not known.
    """

    index: int
    size: int
    node: int = 0
    local_index: int = 0
    local_size: int = 1
    cpu_share: int | None = None
