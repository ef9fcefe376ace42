"""Which blocks each process of a node reads, so that each is read by exactly one."""

from collections.abc import Sequence

import numpy as np

from dtsflow.reader.block_table import Flags
from dtsflow.reader.order import Ints


def node_share(needed: Flags, deliveries: Sequence[Ints], process: int) -> list[int]:
    """What process number `process` reads of the `needed` blocks, in this order.

    All processes of a node call it with the same `deliveries`, the blocks that each of
    them needs, in order of need. A block goes to the one that needs it first, in turn
    where several need it as soon; after its own, each reads its part of those that
    other nodes deliver.
    """
    processes = len(deliveries)
    never = processes * len(needed)
    keys = np.full((processes, len(needed)), never, np.int64)
    for number, (key, delivery) in enumerate(zip(keys, deliveries, strict=True)):
        turn = np.arange(len(delivery))
        key[delivery] = turn * processes + (number - turn) % processes
    first = keys.min(axis=0)
    own = np.flatnonzero((keys.argmin(axis=0) == process) & (first < never))
    rest = np.flatnonzero(needed & (first == never))
    return [*own[np.argsort(first[own])].tolist(), *rest[process::processes].tolist()]
