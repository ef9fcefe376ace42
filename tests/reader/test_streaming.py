import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtsflow.errors import ClosedError, StallError, VolumeError
from dtsflow.reader import block_io
from dtsflow.reader.block_io import Verify
from dtsflow.reader.interleave import MixSpec
from dtsflow.reader.order import EpochOrder, Order, Rows, Shuffle, Tail
from dtsflow.reader.store import Samples
from dtsflow.reader.streaming import StreamingStore, slot_blocks, streaming_bytes
from dtsflow.testing import damage, write_block_volume
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import read_into


def content(sample_id: int) -> bytes:
    return f"sample {sample_id} ".encode() * (1 + sample_id % 7)


def make(folder: Path, counts: Sequence[int]) -> VolumeSet:
    """A volume whose sample i has the bytes content(i) and the label i mod 5."""
    first, blocks = 0, []
    for count in counts:
        blocks.append([(content(i), i % 5) for i in range(first, first + count)])
        first += count
    return scan(write_block_volume(folder / "x.dts", blocks))


def order_of(volumes: VolumeSet, batch: int, lanes: int, **more: object) -> Order:
    return Order(volumes.counts, batch, lanes, seed=3, **more)  # type: ignore[arg-type]  # the tests' own words


@contextmanager
def streaming(
    volumes: VolumeSet, order: Order, lanes: range, io_threads: int = 2, retries: int = 0
) -> Iterator[StreamingStore]:
    store = StreamingStore(volumes, order, lanes, io_threads, Verify.BLOCK, retries)
    try:
        yield store
    finally:
        store.close()


def valid_only(rows: Rows) -> Rows:
    return rows.only(np.flatnonzero(rows.valid))


def check(rows: Rows, samples: Samples, stored: int = 0) -> None:
    for number, sample_id in enumerate(rows.ids.tolist()):
        assert bytes(samples.data(number)) == content(sample_id)
        assert samples.labels[number] == sample_id % 5
    assert not samples.refused
    repeats = 0 if rows.repeats is None else rows.repeats
    assert samples.draw_ids.tolist() == (rows.ids + repeats * stored).tolist()


def deliver(
    store: StreamingStore, epoch: EpochOrder, lanes: range, steps: range, chunk: int
) -> int:
    """Take all rows of a pass in chunks, as one worker does; how many there were."""
    store.begin(epoch, steps)
    taken, stored = 0, store._shared.volumes.num_samples
    for step in steps:
        rows = epoch.rows(step, 1, lanes)
        for first in range(0, len(rows), chunk):
            part = valid_only(rows[first : first + chunk])
            if len(part):
                check(part, store.gather(part), stored)
                store.release(part)
                taken += len(part)
    store.end()
    return taken


@given(data=st.data())
@settings(max_examples=60)
def test_every_row_of_every_pass_has_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    counts = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any), "counts")
    lanes, q = data.draw(st.integers(1, 4), "lanes"), data.draw(st.integers(1, 12), "q")
    volumes = make(tmp_path_factory.mktemp("v"), counts)
    tail = data.draw(st.sampled_from(Tail), "tail")
    order = order_of(
        volumes,
        lanes * q,
        lanes,
        tail=Tail.PAD if sum(counts) < lanes * q and tail is Tail.DROP else tail,
        shuffle=data.draw(st.sampled_from([Shuffle.NONE, Shuffle.BLOCKS]), "shuffle"),
        window=data.draw(st.integers(1, 4), "window"),
    )
    own = range(data.draw(st.integers(0, lanes - 1), "first lane"), lanes)
    start = data.draw(st.integers(0, order.steps - 1), "start")
    chunk = data.draw(st.integers(1, 30), "chunk")
    with streaming(volumes, order, own, data.draw(st.integers(1, 3), "io_threads")) as store:
        for epoch in range(2):
            steps = range(start if epoch else 0, order.steps)
            rows = order.epoch(epoch).rows(steps.start, len(steps), own)
            taken = deliver(store, order.epoch(epoch), own, steps, chunk)
            assert taken == np.count_nonzero(rows.valid)


@given(data=st.data())
@settings(max_examples=30)
def test_every_row_of_a_mix_has_its_bytes_and_what_addresses_its_draws(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    own = st.lists(st.integers(0, 6), min_size=1, max_size=5)
    sources = st.lists(own, min_size=2, max_size=3).filter(lambda counts: any(map(any, counts)))
    counts = data.draw(sources, "counts")
    # A source without samples, as a subset may leave one, cannot have a weight.
    choices = [(), (500, 300, 200)] if all(map(any, counts)) else [()]
    weights = data.draw(st.sampled_from(choices), "weights")
    if weights:
        weights = (*weights[: len(counts) - 1], 1000 - sum(weights[: len(counts) - 1]))
    mixing = MixSpec(("a", "b", "c")[: len(counts)], tuple(map(len, counts)), weights, None)
    lanes, q = data.draw(st.integers(1, 3), "lanes"), data.draw(st.integers(1, 9), "q")
    volumes = make(tmp_path_factory.mktemp("v"), [n for blocks in counts for n in blocks])
    order = order_of(
        volumes,
        lanes * q,
        lanes,
        tail=data.draw(st.sampled_from([Tail.PAD, Tail.WRAP]), "tail"),
        shuffle=data.draw(st.sampled_from([Shuffle.NONE, Shuffle.BLOCKS]), "shuffle"),
        window=data.draw(st.integers(1, 3), "window"),
        mixing=mixing,
    )
    start = data.draw(st.integers(0, order.steps - 1), "start")
    chunk = data.draw(st.integers(1, 30), "chunk")
    every = range(lanes)
    with streaming(volumes, order, every, data.draw(st.integers(1, 3), "io_threads")) as store:
        for epoch in range(2):
            steps = range(start if epoch else 0, order.steps)
            rows = order.epoch(epoch).rows(steps.start, len(steps), every)
            taken = deliver(store, order.epoch(epoch), every, steps, chunk)
            assert taken == np.count_nonzero(rows.valid)


def test_several_workers_take_chunks_at_once(tmp_path: Path) -> None:
    volumes = make(tmp_path, [5, 3, 7, 1, 0, 6, 4, 8, 2])
    order = order_of(volumes, 8, 4, window=2)
    lanes = range(4)
    epoch = order.epoch(1)
    chunks = iter([(step, first) for step in range(order.steps) for first in range(0, 8, 3)])
    lock, errors, seen = threading.Lock(), [], []

    def work(store: StreamingStore) -> None:
        try:
            while True:
                with lock:
                    step, first = next(chunks, (-1, -1))
                if step < 0:
                    return
                part = valid_only(epoch.rows(step, 1, lanes)[first : first + 3])
                if len(part):
                    check(part, store.gather(part))
                    store.release(part)
                    seen.extend(part.ids.tolist())
        except BaseException as error:
            errors.append(error)
            raise

    with streaming(volumes, order, lanes, io_threads=3) as store:
        store.begin(epoch, range(order.steps))
        workers = [threading.Thread(target=work, args=(store,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not errors
    assert sorted(seen) == list(range(36))


@given(
    counts=st.lists(st.integers(0, 50), min_size=1, max_size=60).filter(any),
    lanes=st.integers(1, 9),
    window=st.integers(1, 6),
)
def test_no_window_is_larger_than_its_slot(counts: list[int], lanes: int, window: int) -> None:
    order = Order(np.array(counts, np.int64), lanes * 2, lanes, seed=1, window=window)
    (largest,) = slot_blocks(order)
    for epoch in range(3):
        for lane in range(lanes):
            for leg in order.epoch(epoch).legs(range(order.steps), lane):
                assert len(leg.blocks) <= largest
    assert largest <= max(window, 1)
    assert streaming_bytes(order, range(lanes)) <= 2 * lanes * window * BLOCK_BYTES


@given(
    counts=st.lists(st.integers(0, 20), min_size=1, max_size=20).filter(any),
    lanes=st.integers(1, 5),
    q=st.integers(1, 9),
    tail=st.sampled_from(Tail),
    data=st.data(),
)
def test_legs_hold_every_row_once_and_all_its_block(
    counts: list[int], lanes: int, q: int, tail: Tail, data: st.DataObject
) -> None:
    if tail is Tail.DROP and sum(counts) < lanes * q:
        tail = Tail.PAD
    order = Order(np.array(counts, np.int64), lanes * q, lanes, seed=1, tail=tail, window=3)
    epoch = order.epoch(2)
    steps = range(data.draw(st.integers(0, order.steps - 1)), order.steps)
    for lane in range(lanes):
        rows = valid_only(epoch.rows(steps.start, len(steps), range(lane, lane + 1)))
        legs = epoch.legs(steps, lane)
        numbers = [number for leg in legs for number in range(leg.first, leg.last)]
        assert numbers == rows.numbers.tolist()
        blocks = {number: set(leg.blocks) for leg in legs for number in range(leg.first, leg.last)}
        assert all(b in blocks[n] for b, n in zip(rows.blocks, rows.numbers, strict=True))


def test_only_two_windows_of_a_lane_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = make(tmp_path, [4] * 8)
    order = order_of(volumes, 2, 1, window=1, shuffle=Shuffle.NONE)
    read: list[int] = []

    def recording(descriptor: int, memory: object, offset: int, path: Path, **stop: object) -> bool:
        read.append(offset // BLOCK_BYTES - 1)
        return read_into(descriptor, memory, offset, path, **stop)  # type: ignore[arg-type]

    monkeypatch.setattr(block_io, "read_into", recording)
    epoch = order.epoch(0)
    with streaming(volumes, order, range(1), io_threads=3) as store:
        assert store._shared.memory.nbytes == 2 * BLOCK_BYTES
        store.begin(epoch, range(order.steps))
        for step in range(order.steps):
            rows = epoch.rows(step, 1, range(1))
            samples = store.gather(rows)
            # The window in use and the next; none ahead of that.
            assert max(read) <= step // 2 + 1
            check(rows, samples)
            store.release(rows)
    assert sorted(read) == list(range(8))


def test_a_damaged_block_is_refused_and_the_others_come(
    tmp_path: Path, write_indexed: Callable[..., Path]
) -> None:
    blocks = [[(content(3 * b + i), b) for i in range(3)] for b in range(4)]
    path = write_indexed(tmp_path / "x.dts", blocks)
    damage(path, 2 * BLOCK_BYTES + 5000, b"\x01")  # block 1
    volumes = scan(path)
    order = order_of(volumes, 12, 1, shuffle=Shuffle.NONE, window=4)
    with streaming(volumes, order, range(1)) as store:
        epoch = order.epoch(0)
        store.begin(epoch, range(1))
        samples = store.gather(epoch.rows(0, 1, range(1)))
        assert samples.refused.keys() == {3, 4, 5}
        assert "block 1 of" in samples.refused[4]
        assert bytes(samples.data(6)) == content(6)


def test_a_file_that_ends_early_fails_those_who_need_it(tmp_path: Path) -> None:
    volumes = make(tmp_path, [2, 2, 2])
    order = order_of(volumes, 2, 1, shuffle=Shuffle.NONE)
    os.truncate(volumes.files[0].path, 2 * BLOCK_BYTES + 7)
    epoch = order.epoch(0)
    with streaming(volumes, order, range(1)) as store:
        store.begin(epoch, range(3))
        first = epoch.rows(0, 1, range(1))
        check(first, store.gather(first))
        store.release(first)
        for _ in range(2):
            with pytest.raises(VolumeError, match=r"x\.dts ended early"):
                store.gather(epoch.rows(1, 1, range(1)))


def failing(times: int, code: int) -> Callable[..., bool]:
    left = [times]

    def read(descriptor: int, memory: object, offset: int, path: Path, **stop: object) -> bool:
        if left[0]:
            left[0] -= 1
            cause = OSError(code, os.strerror(code))
            raise VolumeError(f"{path}: reading failed.") from cause
        return read_into(descriptor, memory, offset, path, **stop)  # type: ignore[arg-type]

    return read


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_what_a_share_fails_for_a_while_is_read_again_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(block_io, "_FIRST_PAUSE_S", 0.001)
    volumes = make(tmp_path, [2])
    order = order_of(volumes, 2, 1)
    rows = order.epoch(0).rows(0, 1, range(1))
    monkeypatch.setattr(block_io, "read_into", failing(3, code))
    with streaming(volumes, order, range(1), 1, retries=3) as store:
        store.begin(order.epoch(0), range(1))
        check(rows, store.gather(rows))
        assert store.retries == 3
    assert "Trying again, 3 of 3" in caplog.text
    monkeypatch.setattr(block_io, "read_into", failing(3, code))
    with streaming(volumes, order, range(1), 1, retries=2) as store:
        store.begin(order.epoch(0), range(1))
        with pytest.raises(VolumeError, match="reading failed"):
            store.gather(rows)


def test_other_failures_are_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = make(tmp_path, [2])
    order = order_of(volumes, 2, 1)
    monkeypatch.setattr(block_io, "read_into", failing(1, errno.EACCES))
    with streaming(volumes, order, range(1), 1, retries=9) as store:
        store.begin(order.epoch(0), range(1))
        with pytest.raises(VolumeError):
            store.gather(order.epoch(0).rows(0, 1, range(1)))
        assert store.retries == 0


def test_whoever_waits_is_woken_by_the_end_of_the_pass_and_by_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = make(tmp_path, [2, 2])
    order = order_of(volumes, 2, 1, shuffle=Shuffle.NONE)
    gate, waiting = threading.Event(), threading.Event()

    def gated(descriptor: int, memory: object, offset: int, path: Path, **stop: object) -> bool:
        waiting.set()
        gate.wait()
        return read_into(descriptor, memory, offset, path, **stop)  # type: ignore[arg-type]

    monkeypatch.setattr(block_io, "read_into", gated)
    rows = order.epoch(0).rows(0, 1, range(1))
    for stopping in ("end", "close"):
        ended: list[BaseException] = []
        with streaming(volumes, order, range(1), 1) as store:
            store.begin(order.epoch(0), range(2))

            def wait(store: StreamingStore = store, ended: list[BaseException] = ended) -> None:
                try:
                    store.gather(rows)
                except ClosedError as error:
                    ended.append(error)

            worker = threading.Thread(target=wait)
            worker.start()
            assert waiting.wait(10)
            gate.set() if stopping == "close" else None
            store.end() if stopping == "end" else store.close()
            worker.join(10)
            gate.set()
            assert not worker.is_alive()
        assert len(ended) == 1 or stopping == "close"
        gate.clear()
        waiting.clear()


def test_a_pass_left_early_makes_room_for_the_next(tmp_path: Path) -> None:
    volumes = make(tmp_path, [3] * 9)
    order = order_of(volumes, 3, 1, window=2)
    lanes = range(1)
    with streaming(volumes, order, lanes) as store:
        for epoch in range(5):
            store.begin(order.epoch(epoch), range(order.steps))
            rows = order.epoch(epoch).rows(0, 1, lanes)
            check(rows, store.gather(rows))
            store.end()
        taken = deliver(store, order.epoch(9), lanes, range(order.steps), 2)
        assert taken == 27
    assert [thread.is_alive() for thread in store.threads] == [False, False]


def test_a_disk_that_hangs_is_named_when_the_next_pass_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = make(tmp_path, [2, 2])
    order = order_of(volumes, 2, 1)
    gate, reading = threading.Event(), threading.Event()

    def hanging(*_arguments: object, **_stop: object) -> bool:
        reading.set()
        gate.wait()
        return False

    monkeypatch.setattr(block_io, "read_into", hanging)
    with streaming(volumes, order, range(1), 1) as store:
        store.begin(order.epoch(0), range(1))
        assert reading.wait(10)
        store.end()
        with pytest.raises(StallError, match="1 reads for the pass before have not returned"):
            store.begin(order.epoch(1), range(1), timeout_s=0.05)
        gate.set()
