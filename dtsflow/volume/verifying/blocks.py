"""Every block of a file read once, by several threads of several ranks."""

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

from dtsflow.errors import DecodeError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.ranks.crew import Crew
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.verifying.report import told
from dtsflow.volume.verifying.structure import Finding, Memory, Structure, examine

Decode = Callable[[memoryview], None]
Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What a check works with: `tick` is called after each block, in one thread.

    The blocks of each file go to the ranks of `crew` in turn; `tick` hears of its own.
    """

    decode: Decode | None
    workers: int
    tick: Tick
    crew: Crew = field(default_factory=Crew)


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

    def facts(self) -> dict[str, Any]:
        """It as values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "BlockFacts":
        """It from what `facts` gave."""
        findings = tuple(Finding(**one) for one in facts["findings"])
        return cls(**{**facts, "findings": findings})


def check_blocks(path: Path, blocks: int, level: int, means: Means) -> list[BlockFacts]:
    """Read the first `blocks` blocks of a file that has them, and say what each is.

    Where there are several ranks, rank 0 calls it, and the others `serve` meanwhile.

    Raises:
        VolumeError: The file cannot be opened.
        CommonError: It cannot, on some of several ranks.
    """
    means.crew.tell(json.dumps([str(path), blocks, level]))
    return _shared_out(path, blocks, level, means)


def serve(means: Means) -> None:
    """Do this rank's share of all that rank 0 checks, until it is told to `dismiss`.

    Raises:
        CommonError: A file cannot be opened on some ranks.
    """
    while told := means.crew.tell(""):
        path, blocks, level = json.loads(told)
        _shared_out(Path(path), blocks, level, means)


def dismiss(means: Means) -> None:
    """Tell the others, on rank 0, that there is nothing more to check."""
    means.crew.tell("")


def _shared_out(path: Path, blocks: int, level: int, means: Means) -> list[BlockFacts]:
    own = means.crew.own(range(blocks))
    found = means.crew.together(partial(_read_blocks, path, own, level, means))
    return [
        BlockFacts.from_facts(facts)
        for facts in means.crew.exchange([one.facts() for one in found])
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
