import hashlib
import struct
import zlib
from dataclasses import replace

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest

SETTING = Setting(None, {"train": PhaseSetting(0), "val": PhaseSetting(1)})


def batch_of(ids: list[int], *, step: int = 0, first_row: int = 0, channels: int = 3) -> Batch:
    padded = np.zeros((len(ids), 2, 2, channels), np.float16)
    for row, sample in enumerate(ids):
        padded[row, ..., :3] = sample
    return Batch(
        images=padded[..., :3],
        padded=padded,
        labels=np.zeros(len(ids), np.int32),
        valid=np.array([sample >= 0 for sample in ids]),
        sample_ids=np.array(ids, np.int64),
        phase="train",
        epoch=0,
        step=step,
        first_row=first_row,
        zone=0,
    )


def digest_of(*batches: Batch) -> dict[str, object]:
    sink = Digest().open(SETTING)
    for batch in batches:
        sink.take(batch)
    found: dict[str, object] = sink.results()["digest"]
    return found


def test_digests_are_what_their_definition_says() -> None:
    found = digest_of(batch_of([5, 3], first_row=8, step=2))
    crc = {s: zlib.crc32(np.full((2, 2, 3), s, np.float16).tobytes()) for s in (5, 3)}
    pairs = b"".join(struct.pack("<qI", sample, crc[sample]) for sample in (3, 5))
    rows = [
        hashlib.sha256(struct.pack("<IIIIqI", 0, 0, 2, row, sample, crc[sample])).digest()
        for row, sample in ((8, 5), (9, 3))
    ]
    total = sum(int.from_bytes(row, "big") for row in rows) % 2**256
    assert found["samples"] == hashlib.sha256(pairs).hexdigest()
    assert found["sequence"] == f"{total:064x}"


def test_samples_ignores_the_order_and_sequence_does_not() -> None:
    one, other = digest_of(batch_of([1, 2, 3])), digest_of(batch_of([3, 1, 2]))
    assert one["samples"] == other["samples"]
    assert one["sequence"] != other["sequence"]


def test_the_parts_of_a_batch_on_two_ranks_add_up() -> None:
    whole = digest_of(batch_of([1, 2, 3, 4]))
    parts = digest_of(batch_of([1, 2]), batch_of([3, 4], first_row=2))
    assert whole == parts


def test_missing_rows_and_channel_padding_do_not_count() -> None:
    assert digest_of(batch_of([1, 2, -1])) == digest_of(batch_of([1, 2], channels=4))


def test_phases_and_epochs_are_kept_apart_and_together() -> None:
    batch = batch_of([1, 2])
    found = digest_of(batch, replace(batch, epoch=1), replace(batch, phase="val"))
    epochs = found["epochs"]
    assert isinstance(epochs, list)
    assert [(e["phase"], e["epoch"]) for e in epochs] == [("train", 0), ("train", 1), ("val", 0)]
    assert len({e["sequence"] for e in epochs}) == 3
    assert len({e["samples"] for e in epochs}) == 1
    assert sum(int(e["sequence"], 16) for e in epochs) % 2**256 == int(str(found["sequence"]), 16)
