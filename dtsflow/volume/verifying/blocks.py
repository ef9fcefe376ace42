"""Every block of a file read once, by several threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import local

import numpy as np

from dtsflow.errors import DecodeError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.verifying.report import told
from dtsflow.volume.verifying.structure import Finding, Memory, Structure, examine

Decode = Callable[[memoryview], None]
Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What a check works with: `tick` is called after each block, in one thread."""

    decode: Decode | None
    workers: int
    tick: Tick


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """What one read of a block told; `crc` is None where it could not be read.

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


def check_blocks(path: Path, blocks: int, level: int, means: Means) -> list[BlockFacts]:
    """Read the first `blocks` blocks of a file that has them, and say what each is.

    Raises:
        VolumeError: The file cannot be opened.
    """
    memories = local()
    with opened(path) as descriptor, _pool(means.workers) as pool:
        check = partial(_check, memories, descriptor, path, level, means.decode)
        facts = []
        for one in pool.map(check, range(blocks)):
            facts.append(one)
            means.tick()
        return facts


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that an interrupt stops after the blocks they are at."""
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
