"""Digests of what was delivered: equal digests mean equal pixels in equal order."""

import hashlib
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Setting

# phase number, epoch, step, row of the global batch, sample_id, CRC-32 of the pixels
_ROW = struct.Struct("<IIIIqI")
_PAIR = np.dtype([("id", "<i8"), ("crc", "<u4")])
_MODULUS = 1 << 256


@configurable
class Digest:
    """Digest every valid row by the CRC-32 of its logical pixels.

    A row of a set of records has no pixels; its CRC-32 is that of the row's bytes of
    all fields, one field after the other in their order.

    `samples` is the SHA-256 over the sorted pairs (sample_id, CRC-32), packed `<qI`: it
    says which images were delivered, in whatever order. `sequence` is the sum modulo
    2²⁵⁶ of the SHA-256 of each row's (phase number, epoch, step, row of the global
    batch, sample_id, CRC-32), packed `<IIIIqI`: it says in which order too, and as a
    sum it adds up over ranks, phases and the parts of a resumed run. Both are kept for
    the whole run and for each phase and epoch.
    """

    def open(self, setting: Setting) -> "Digesting":
        """Start with nothing delivered."""
        return Digesting({name: phase.number for name, phase in setting.phases.items()})


class _Part:
    """The digests of one phase and epoch."""

    def __init__(self) -> None:
        self.sequence = 0
        self.pairs: list[np.ndarray[Any, Any]] = []


class Digesting:
    """Digests in the making."""

    def __init__(self, phases: dict[str, int]) -> None:
        self._phases = phases
        self._parts: dict[tuple[str, int], _Part] = {}

    def take(self, batch: Batch) -> None:
        """Digest the valid rows of `batch`."""
        batch = batch.on_host()
        part = self._parts.setdefault((batch.phase, batch.epoch), _Part())
        rows = np.flatnonzero(batch.valid)
        pairs = np.empty(len(rows), _PAIR)
        pairs["id"] = batch.sample_ids[rows]
        for place, row in enumerate(rows):
            pairs["crc"][place] = crc = _crc(batch, int(row))
            packed = _ROW.pack(
                self._phases[batch.phase],
                batch.epoch,
                batch.step,
                batch.first_row + int(row),
                int(batch.sample_ids[row]),
                crc,
            )
            part.sequence += int.from_bytes(hashlib.sha256(packed).digest(), "big")
        part.pairs.append(pairs)

    def finish(self, phase: str, epoch: int) -> str:  # noqa: ARG002  # nothing to say
        """Return an empty text: nothing is summed up before the run ends."""
        return ""

    def results(self) -> dict[str, Any]:
        """Return the digests, under `digest`."""
        parts = self._parts.values()
        epochs = [
            {
                "phase": phase,
                "epoch": epoch,
                "samples": _samples(part.pairs),
                "sequence": _hexadecimal(part.sequence),
            }
            for (phase, epoch), part in sorted(self._parts.items())
        ]
        return {
            "digest": {
                "samples": _samples([pairs for part in parts for pairs in part.pairs]),
                "sequence": _hexadecimal(sum(part.sequence for part in parts)),
                "epochs": epochs,
            }
        }


def add_sequences(parts: Iterable[str]) -> str:
    """Return the `sequence` of several ranks, phases or parts of a run together."""
    return _hexadecimal(sum(int(part, 16) for part in parts))


def _crc(batch: Batch, row: int) -> int:
    if batch.images is not None:
        return zlib.crc32(batch.images[row].tobytes())
    crc = 0
    for array in batch.fields.values():
        crc = zlib.crc32(array[row].tobytes(), crc)
    return crc


def _samples(pairs: list[np.ndarray[Any, Any]]) -> str:
    every = np.concatenate([np.empty(0, _PAIR), *pairs])
    return hashlib.sha256(np.sort(every, order=("id", "crc")).tobytes()).hexdigest()


def _hexadecimal(total: int) -> str:
    return f"{total % _MODULUS:064x}"
