"""Reading blocks of a volume, without decoding: the streaming store, or a loop.

What is counted is MiB. A cold pass begins with the volume out of the page cache.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from timing import job, timed

from dtsflow.memory.align import aligned_bytes
from dtsflow.reader.block_io import Verify
from dtsflow.reader.order import EpochOrder, Order, window_blocks
from dtsflow.reader.rows import RowTable
from dtsflow.reader.streaming import StreamingStore
from dtsflow.volume import scan
from dtsflow.volume.format.header import BLOCK_BYTES

_PIECE = 4 << 20
_BATCH, _LANES, _WINDOW = 256, 16, 512 << 20  # dtsflow's defaults
_WORKERS = 2


def main() -> None:
    """Time whole passes over all blocks."""
    asked = job()
    path = Path(asked.data)
    read = bare if asked.verify is None else streaming
    with path.open("rb") as file:
        descriptor = file.fileno()

        def one_pass() -> int:
            if asked.cold:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            return next(passes)

        passes = read(path, asked)
        timed(one_pass, asked.passes, f"dtsflow {version('dtsflow')}" if asked.verify else "preadv")
    passes.close()


def bare(path: Path, asked: SimpleNamespace) -> Iterator[int]:
    """Four threads, each reads every fourth block, in 4 MiB, into buffers in turn."""
    blocks = path.stat().st_size // BLOCK_BYTES - 1
    buffers = [aligned_bytes(BLOCK_BYTES) for _ in range(asked.buffers)]

    def stride(first: int) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        for block in range(first, blocks, 4):
            for start in range(0, BLOCK_BYTES, _PIECE):
                piece = buffers[block % len(buffers)][start : start + _PIECE].data
                os.preadv(descriptor, [piece], (1 + block) * BLOCK_BYTES + start)
        os.close(descriptor)

    with ThreadPoolExecutor(4) as pool:
        while True:
            list(pool.map(stride, range(4)))
            yield blocks * BLOCK_BYTES >> 20


def streaming(path: Path, asked: SimpleNamespace) -> Iterator[int]:
    """The store as a run uses it, by workers that let go of every sample at once."""
    volumes = scan(path)
    window = window_blocks(_WINDOW, _LANES)
    order = Order(volumes.counts, _BATCH, _LANES, seed=0, window=window)
    lanes = range(_LANES)
    store = StreamingStore(volumes, order, lanes, 4, Verify(asked.verify), 3)
    try:
        for epoch in range(1 << 30):
            made = order.epoch(epoch)
            store.begin(made, range(order.steps))
            _drain(store, made, order)
            legs = (leg for lane in lanes for leg in made.legs(range(order.steps), lane))
            store.end()
            yield sum(len(leg.blocks) for leg in legs) * BLOCK_BYTES >> 20
    finally:
        store.close()


def _drain(store: StreamingStore, epoch: EpochOrder, order: Order) -> None:
    steps = iter(range(order.steps))
    table = RowTable(epoch, range(_LANES), _BATCH)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                step = next(steps, None)
            if step is None:
                return
            rows = table.rows(step)
            rows = rows.only(np.flatnonzero(rows.valid))
            store.gather(rows)
            store.release(rows)

    workers = [threading.Thread(target=work) for _ in range(_WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
