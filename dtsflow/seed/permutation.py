"""Keyed permutations: a shuffle that is a function of its address."""

import numpy as np
import numpy.typing as npt

from dtsflow.seed.address import Purpose, counters, key
from dtsflow.seed.philox import philox4x32


def permutation(  # noqa: PLR0913  # one argument for each field of an address
    n: int,
    *,
    seed: int,
    epoch: int,
    purpose: Purpose,
    phase: int = 0,
    block: int = 0,
    sub: int = 0,
) -> npt.NDArray[np.int64]:
    """Shuffle 0..n-1 as the address says: place i of the result holds what comes i-th.

    Each element draws a 64-bit sort key under its own number as id. The sort is stable,
    so equal keys keep their order and the result never depends on the sort's insides.

    Raises:
        PlanError: A field of the address does not fit.
    """
    elements = np.arange(n, dtype=np.int64)
    addresses = counters(elements, block=block, epoch=epoch, purpose=purpose, phase=phase, sub=sub)
    words = philox4x32(addresses, key(seed))
    sort_keys = (words[:, 0].astype(np.uint64) << 32) + words[:, 1]
    return np.argsort(sort_keys, kind="stable").astype(np.int64, copy=False)
