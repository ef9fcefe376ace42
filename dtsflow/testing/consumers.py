"""Checks of a plugin's consumer, on batches made for it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.consumer.consumer import Consumer, PhaseSetting, Setting
from dtsflow.spec import Field
from dtsflow.tensor.dtype import DType
from dtsflow.testing.sameness import pickled

_FIELDS = (Field("x", (1,), DType.FP64), Field("y", (1,), DType.FP64))


def record_batch(
    rows: int = 4, *, step: int = 0, fields: Sequence[Field] = _FIELDS, missing: int = 1
) -> Batch:
    """Make a batch of small random numbers; its last `missing` rows hold no record."""
    rng = np.random.default_rng(step)
    valid = np.arange(rows) < rows - missing
    arrays = {}
    for field in fields:
        values = rng.integers(0, 100, (rows, *field.shape)).astype(field.dtype.numpy)
        values[~valid] = 0
        arrays[field.name] = values
    return Batch(
        images=None,
        padded=None,
        labels=np.full(rows, -1, np.int32),
        valid=valid,
        sample_ids=np.where(valid, np.arange(rows) + rows * step, -1),
        phase="train",
        epoch=0,
        step=step,
        first_row=0,
        zone=step % 2,
        fields=arrays,
    )


def check_consumer(
    consumer: Consumer,
    batches: Sequence[Batch] = (),
    *,
    folder: Path | None = None,
    setting: Setting | None = None,
) -> dict[str, object]:
    """Let a consumer take some batches of one epoch, and return its results.

    Without `batches` they are records of two fields, x and y. It pickles, does not
    write to a batch, and its results are plain JSON values, the same each time.

    Raises:
        AssertionError: It breaks its contract.
    """
    name = type(consumer).__name__
    batches = batches or [record_batch(step=0), record_batch(step=1, missing=0)]
    if setting is None:
        phase = PhaseSetting(0, pixels=None, steps=len(batches), fields=_FIELDS)
        setting = Setting(folder, {"train": phase})
    told = [_results(name, one, batches, setting) for one in (consumer, pickled(consumer))]
    assert told[0] == told[1], f"{name} answers otherwise each time: {told[0]}, then {told[1]}"
    found: dict[str, object] = json.loads(told[0])
    return found


def _results(name: str, consumer: Consumer, batches: Sequence[Batch], setting: Setting) -> str:
    sink = consumer.open(setting)
    for batch in batches:
        arrays = [batch.labels, batch.valid, batch.sample_ids, *batch.fields.values()]
        arrays += [] if batch.padded is None else [batch.padded]
        lent = [array.copy() for array in arrays]
        sink.take(batch)
        for array, before in zip(arrays, lent, strict=True):
            assert array.tobytes() == before.tobytes(), f"{name} writes to a batch"
    said = sink.finish("train", 0)
    assert isinstance(said, str), f"{name}: finish() answers {said!r}, and not a text"
    try:
        return json.dumps(sink.results(), sort_keys=True)
    except TypeError as error:
        raise AssertionError(f"{name}: its results are no plain JSON values: {error}") from error
