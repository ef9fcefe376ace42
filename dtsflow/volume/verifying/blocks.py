"""The check of a file's blocks: each read once, by several threads of several ranks.

`examine` finds how the samples lie in one block, and every way in which that is wrong.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.errors import DecodeError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.ranks.collective import Collective
from dtsflow.volume.format.header import (
    BLOCK_BYTES,
    BLOCK_CAPACITY,
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    BLOCK_PREFIX_BYTES,
    ENTRY_BYTES,
    SAMPLE_ALIGN,
)
from dtsflow.volume.format.io import crc32, opened, read_into
from dtsflow.volume.verifying.report import told

Memory = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a block; `row` is the index of a sample in it."""

    what: str
    row: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The header of a block as it is, right or wrong.

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
        """Return the number of samples that can be looked at."""
        return len(self.offsets)

    def sample(self, memory: Memory, row: int) -> memoryview | None:
        """Return a sample's bytes in `memory`; None if they are not in the block."""
        start, size = int(self.offsets[row]), int(self.sizes[row])
        return memory.data[start : start + size] if start + size <= BLOCK_BYTES else None


def examine(memory: Memory, *, block: int, level: int) -> Structure:
    """Look at a whole block, which should be number `block` of a file of this level.

    The layout is the one that all writers use: samples in order, each padded with zeros
    to 64 bytes, all else zero. Labels are not checked here, because the classes are not
    known.
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
    """Return where samples of these sizes begin in a block, and the end."""
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


Decode = Callable[[memoryview], None]
Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Means:
    """The tools of a check: `tick` is called after each block, in one thread.

    The blocks of each file go to the ranks of `collective` in turn; `tick` counts this
    rank's own.
    """

    decode: Decode | None
    workers: int
    tick: Tick
    collective: Collective = field(default_factory=Collective)


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """The facts of one read of a block; `crc` is None where it could not be read.

    `largest_label` is -1 in an empty block.
    """

    block: int
    crc: int | None
    number: int
    count: int
    sample_bytes: int
    largest_label: int
    largest_row: int
    findings: tuple[Finding, ...]

    def facts(self) -> dict[str, Any]:
        """Return the facts as values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "BlockFacts":
        """Make the same again from what `facts` gave."""
        findings = tuple(Finding(**one) for one in facts["findings"])
        return cls(**{**facts, "findings": findings})


def check_blocks(path: Path, blocks: int, level: int, means: Means) -> list[BlockFacts]:
    """Read the first `blocks` blocks of a file that has them, and say what each is.

    Where there are several ranks, rank 0 calls it, and the others `serve` meanwhile.

    Raises:
        VolumeError: The file cannot be opened.
        CommonError: It cannot, on some of several ranks.
    """
    means.collective.tell(json.dumps([str(path), blocks, level]))
    return _shared_out(path, blocks, level, means)


def serve(means: Means) -> None:
    """Do this rank's share of all that rank 0 checks, until rank 0 sends `dismiss`.

    Raises:
        CommonError: A file cannot be opened on some ranks.
    """
    while told := means.collective.tell(""):
        path, blocks, level = json.loads(told)
        _shared_out(Path(path), blocks, level, means)


def dismiss(means: Means) -> None:
    """Tell the others, on rank 0, that there is nothing more to check."""
    means.collective.tell("")


def _shared_out(path: Path, blocks: int, level: int, means: Means) -> list[BlockFacts]:
    own = means.collective.own(range(blocks))
    found = means.collective.together(partial(_read_blocks, path, own, level, means))
    return [
        BlockFacts.from_facts(facts)
        for facts in means.collective.exchange([one.facts() for one in found])
    ]


def _read_blocks(path: Path, blocks: Sequence[int], level: int, means: Means) -> list[BlockFacts]:
    memories = local()
    with opened(path) as descriptor, _pool(means.workers) as pool:
        check = partial(_check, memories, descriptor, path, level, means.decode)
        facts = []
        for one in pool.map(check, blocks):
            facts.append(one)
            means.tick()
        return facts


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads that an interrupt stops after the blocks they are at."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _check(
    memories: local, descriptor: int, path: Path, level: int, decode: Decode | None, block: int
) -> BlockFacts:
    if not hasattr(memories, "block"):
        memories.block = aligned_bytes(BLOCK_BYTES)
    memory: Memory = memories.block
    try:
        read_into(descriptor, memory, (1 + block) * BLOCK_BYTES, path)
    except VolumeError as error:
        return BlockFacts(block, None, block, 0, 0, -1, 0, (Finding(told(error, path)),))
    structure = examine(memory, block=block, level=level)
    labels = structure.labels
    return BlockFacts(
        block=block,
        crc=crc32(memory.data),
        number=structure.number,
        count=structure.count,
        sample_bytes=int(structure.sizes.sum()),
        largest_label=int(labels.max(initial=-1)),
        largest_row=int(np.argmax(labels)) if len(labels) else 0,
        findings=structure.findings + _decoded(structure, memory, decode),
    )


def _decoded(structure: Structure, memory: Memory, decode: Decode | None) -> tuple[Finding, ...]:
    if decode is None:
        return ()
    findings = []
    for row in range(structure.count):
        sample = structure.sample(memory, row)
        if sample is None:
            continue  # the layout was found wrong already
        try:
            decode(sample)
        except DecodeError as error:
            findings.append(Finding(f"cannot be decoded: {error}", row))
    return tuple(findings)
