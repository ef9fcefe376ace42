"""How the samples lie in one block, and every way in which that is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtsflow.volume.format import (
    BLOCK_BYTES,
    BLOCK_CAPACITY,
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    BLOCK_PREFIX_BYTES,
    ENTRY_BYTES,
    SAMPLE_ALIGN,
)

Memory = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a block; `row` is the place of a sample in it."""

    what: str
    row: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What a block's own header says, right or wrong.

    The arrays have one entry per sample; they are empty where the block counts more
    samples than its header holds. `is_laid_out` says that every sample lies inside the
    block, right behind the one before it.
    """

    number: int
    offsets: Numbers
    sizes: Numbers
    labels: Numbers
    is_laid_out: bool
    findings: tuple[Finding, ...]

    @property
    def count(self) -> int:
        """Samples that can be looked at."""
        return len(self.offsets)

    def sample(self, memory: Memory, row: int) -> memoryview | None:
        """The bytes of one sample in `memory`; None if they are not in the block."""
        start, size = int(self.offsets[row]), int(self.sizes[row])
        return memory.data[start : start + size] if start + size <= BLOCK_BYTES else None


def examine(memory: Memory, *, block: int, level: int) -> Structure:
    """Look at a whole block, which should be number `block` of a file of this level.

    The layout is the one that all writers use: samples in order, each padded with
    zeros to 64 bytes, all else zero. Labels are left to whoever knows the classes.
    """
    number, claimed = (int(word) for word in np.frombuffer(memory, "<u4", 2, offset=4))
    findings = list(_prefix(memory, block, level, number, claimed))
    count = claimed if claimed <= BLOCK_CAPACITY[level] else 0
    words = np.frombuffer(memory, "<u4", 3 * count, offset=BLOCK_PREFIX_BYTES)
    offsets, sizes, labels = words.astype(np.int64).reshape(3, count)
    wrong = list(_layout(offsets, sizes, BLOCK_HEADER_BYTES[level]))
    is_laid_out = not wrong and count == claimed
    findings += wrong
    if is_laid_out:
        findings += _zeros(memory, offsets, sizes, BLOCK_HEADER_BYTES[level])
    return Structure(number, offsets, sizes, labels, is_laid_out, tuple(findings))


def starts(sizes: Numbers, level: int) -> Numbers:
    """Where samples of these sizes begin in a block; one entry more, for the end."""
    steps = -(-sizes // SAMPLE_ALIGN) * SAMPLE_ALIGN
    return BLOCK_HEADER_BYTES[level] + np.concatenate([[0], np.cumsum(steps)])


def _prefix(memory: Memory, block: int, level: int, number: int, claimed: int) -> Iterator[Finding]:
    magic = memory[:4].tobytes()
    if magic != BLOCK_MAGIC[level]:
        yield Finding(
            f"it starts with {magic!r}, a level {level} block with {BLOCK_MAGIC[level]!r}"
        )
    if number != block:
        yield Finding(f"it says it is block {number}")
    if claimed > BLOCK_CAPACITY[level]:
        yield Finding(
            f"it counts {claimed} samples, its header holds {BLOCK_CAPACITY[level]} at "
            f"level {level}"
        )


def _layout(offsets: Numbers, sizes: Numbers, front: int) -> Iterator[Finding]:
    steps = -(-sizes // SAMPLE_ALIGN) * SAMPLE_ALIGN
    wanted = front + np.cumsum(steps) - steps
    wrong = np.flatnonzero(offsets != wanted)
    if len(wrong):
        row = int(wrong[0])
        more = f", and {len(wrong) - 1} more do not fit" if len(wrong) > 1 else ""
        yield Finding(
            f"starts at byte {offsets[row]}, by the sizes before it at {wanted[row]}{more}", row
        )
    past = np.flatnonzero(offsets + sizes > BLOCK_BYTES)
    if len(past):
        row = int(past[0])
        end = offsets[row] + sizes[row]
        yield Finding(f"ends at byte {end}, past the block's {BLOCK_BYTES}", row)


def _zeros(memory: Memory, offsets: Numbers, sizes: Numbers, front: int) -> Iterator[Finding]:
    entries = BLOCK_PREFIX_BYTES + ENTRY_BYTES * len(offsets)
    yield from _nonzero(memory, entries, front, "of its header")
    ends = offsets + sizes
    padded = np.flatnonzero(ends % SAMPLE_ALIGN)
    # The last 64 bytes of each sample; those after its end must be zero.
    lines = memory.reshape(-1, SAMPLE_ALIGN)[ends[padded] // SAMPLE_ALIGN]
    behind = np.arange(SAMPLE_ALIGN) >= (ends[padded] % SAMPLE_ALIGN)[:, None]
    for line in np.flatnonzero((lines.astype(bool) & behind).any(axis=1)).tolist():
        yield Finding("the padding behind it is not zero", int(padded[line]))
    end = int(ends[-1]) if len(ends) else front
    yield from _nonzero(
        memory, -(-end // SAMPLE_ALIGN) * SAMPLE_ALIGN, BLOCK_BYTES, "behind its samples"
    )


def _nonzero(memory: Memory, start: int, stop: int, where: str) -> Iterator[Finding]:
    part = memory[start:stop]
    if part.any():
        places = np.flatnonzero(part)
        first, last = start + int(places[0]), start + int(places[-1])
        yield Finding(f"bytes {first} to {last} {where} are not all zero, as they must be")
