"""Batches as JAX's arrays; the only module that imports it."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtsflow.arena.batch import Batch
from dtsflow.errors import MissingPartError
from dtsflow.interop.copies import BufferPool, expect_images
from dtsflow.tensor.dtype import DType

try:
    import jax
except ImportError as error:
    raise MissingPartError(
        f"JAX cannot be imported ({error}): pip install 'dtsflow[jax]'."
    ) from error


class JaxBatch(NamedTuple):
    """One batch of one rank, a pytree.

    Attributes:
        images: Pixels (B, H, W, C); BF16 as bfloat16.
        labels: int32 (B,); -1 in a missing row.
        valid: bool (B,); False in a missing row.
        sample_ids: int64 (B,), -1 in a missing row: a NumPy array, for JAX cuts 64 bits
            down to 32 unless it is set not to.
    """

    images: jax.Array
    labels: jax.Array
    valid: jax.Array
    sample_ids: npt.NDArray[np.int64]


def batches(of: Iterable[Batch], *, device: Any = None, copy: bool = True) -> Iterator[JaxBatch]:
    """Yield the batches of a run or of a pass as arrays on `device`.

    `batches(run.epoch(3, phase="val"))`; `run.state()` counts those handed out.

    Args:
        of: A run, or what `run.epoch` gives.
        device: A device or a sharding; None is JAX's default.
        copy: False spares a copy, for loops that use a batch before they ask for the
            next one. On the CPU the arrays may then lie in the memory of the run, so
            that the loop must also wait for its results (`jax.block_until_ready`), as
            JAX itself does not.
    """
    lender = BufferPool()
    for batch in of:
        yield _arrays(batch, device, lender if copy else None)


def _arrays(batch: Batch, device: Any, lender: BufferPool | None) -> JaxBatch:
    expect_images(batch)
    images, labels, valid = batch.images, batch.labels, batch.valid
    if lender is not None:
        # JAX may take an array over as it is, or read it later: it gets its own.
        images, labels, valid = lender.copy(images), labels.copy(), valid.copy()
    sent = jax.device_put((_viewed(images), labels, valid), device)
    if lender is None:
        jax.block_until_ready(sent)  # the transfers, that is
    images, labels, valid = sent
    return JaxBatch(images, labels, valid, batch.sample_ids.copy())


def _viewed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    is_bf16 = array.dtype == DType.BF16.numpy
    return array.view(np.dtype(jax.numpy.bfloat16)) if is_bf16 else array
