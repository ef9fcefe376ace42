import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtsflow.errors import ClosedError, StallError, VolumeError
from dtsflow.reader import block_io, files, files_on_demand
from dtsflow.reader.block_io import Verify
from dtsflow.reader.files import RawStore, raw_bytes
from dtsflow.reader.files_on_demand import SingleImages
from dtsflow.reader.order import EpochOrder, Order, Rows, Shuffle, Tail
from dtsflow.reader.rows import Portions, Selection
from dtsflow.reader.store import Samples
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.format.io import read_into


def content(sample_id: int) -> bytes:
    return f"image {sample_id} ".encode() * (sample_id % 7)  # some files are empty


def make(folder: Path, samples: int) -> RawSet:
    """A folder whose image i has the bytes content(i) and lies in class i div 10."""
    for number in range(samples):
        own = folder / "images" / f"c{number // 10:02d}"
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{number:03d}.jpg").write_bytes(content(number))
    found = Raw(path=str(folder / "images")).scan()
    assert isinstance(found, RawSet)
    return found


def order_of(images: RawSet, batch: int, lanes: int = 1, **more: object) -> Order:
    return Order(images.counts, batch, lanes, seed=3, **({"shuffle": Shuffle.FULL} | more))  # type: ignore[arg-type]  # the tests' own words


@contextmanager
def reading(
    images: RawSet, portions: Portions, io_threads: int = 2, retries: int = 0
) -> Iterator[RawStore]:
    store = RawStore(images, portions, io_threads, Verify.BLOCK, retries)
    try:
        yield store
    finally:
        store.close()


def check(rows: Rows, samples: Samples) -> None:
    assert samples.ids.tolist() == rows.ids.tolist()
    for number, sample_id in enumerate(rows.ids.tolist()):
        assert bytes(samples.data(number)) == content(sample_id)
        assert samples.labels[number] == sample_id // 10
    assert not samples.refused


def deliver(store: RawStore, portions: Portions, epoch: EpochOrder, steps: range) -> list[int]:
    """Take all rows of a pass, as one worker does; their ids."""
    store.begin(epoch, steps)
    taken: list[int] = []
    table = portions.table(epoch)
    for number in range(steps.start * portions.of_batch, steps.stop * portions.of_batch):
        rows = portions.rows_of(table, number)
        rows = rows.only(np.flatnonzero(rows.valid))
        if len(rows):
            check(rows, store.gather(rows))
            store.release(rows)
            taken += rows.ids.tolist()
    store.end()
    return taken


@given(data=st.data())
@settings(max_examples=40)
def test_every_row_of_every_pass_has_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    images = make(tmp_path_factory.mktemp("v"), data.draw(st.integers(1, 40), "samples"))
    lanes, q = data.draw(st.integers(1, 4), "lanes"), data.draw(st.integers(1, 9), "q")
    selection = None
    if data.draw(st.booleans(), "part"):
        ids = np.arange(images.num_samples)[:: data.draw(st.integers(1, 3))]
        selection = Selection.of(images, ids)
    order = Order(
        images.counts if selection is None else selection.counts,
        lanes * q,
        lanes,
        seed=3,
        shuffle=data.draw(st.sampled_from(Shuffle), "shuffle"),
        tail=data.draw(st.sampled_from([Tail.PAD, Tail.WRAP]), "tail"),
    )
    own = range(data.draw(st.integers(0, lanes - 1), "first"), lanes)
    chunk = data.draw(st.integers(1, 12), "chunk")
    portions = Portions(order, own, min(chunk, len(own) * q), selection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "AHEAD_BYTES", data.draw(st.sampled_from([0, 50, 10_000]), "ahead"))
        with reading(images, portions, data.draw(st.integers(1, 5), "threads")) as store:
            for number in range(3):
                steps = range(data.draw(st.integers(0, order.steps - 1)), order.steps)
                taken = deliver(store, portions, order.epoch(number), steps)
                if steps.start == 0 and order.tail is Tail.PAD and len(own) == lanes:
                    wanted = range(images.num_samples) if selection is None else selection.ids
                    assert sorted(taken) == list(wanted)


def test_no_more_is_read_ahead_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "AHEAD_BYTES", 100)
    images = make(tmp_path, 60)
    order = order_of(images, 2, shuffle=Shuffle.NONE)
    portions = Portions(order, range(1), 2)
    room = raw_bytes(images, portions)
    assert room < images.runs.sizes.sum()
    read: list[int] = []
    enough = threading.Event()

    def recording(descriptor: int, memory: object, *rest: object, **stop: object) -> bool:
        read.append(len(memory))  # type: ignore[arg-type]  # the store's own memory
        if sum(read) + 60 > room:
            enough.set()
        return read_into(descriptor, memory, *rest, **stop)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(files_on_demand, "read_into", recording)
    with reading(images, portions, 1) as store:
        store.begin(order.epoch(0), range(order.steps))
        assert enough.wait(20)
        assert sum(read) <= room
        assert len(deliver(store, portions, order.epoch(0), range(order.steps))) == 60


def test_several_workers_take_their_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "AHEAD_BYTES", 0)
    images = make(tmp_path, 97)
    order = order_of(images, 8, lanes=2)
    portions = Portions(order, range(2), 3)
    epoch, turns = order.epoch(0), iter(range(order.steps * portions.of_batch))
    table, lock = portions.table(epoch), threading.Lock()
    taken: list[int] = []

    def work() -> None:
        while True:
            with lock:
                number = next(turns, None)
            if number is None:
                return
            rows = portions.rows_of(table, number)
            rows = rows.only(np.flatnonzero(rows.valid))
            if len(rows):
                check(rows, store.gather(rows))
                store.release(rows)
                taken.extend(rows.ids.tolist())

    with reading(images, portions, 4) as store:
        store.begin(epoch, range(order.steps))
        workers = [threading.Thread(target=work) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
    assert sorted(taken) == list(range(97))


def test_any_portion_of_the_largest_images_has_room(tmp_path: Path) -> None:
    images = make(tmp_path, 30)
    sizes = np.sort(images.runs.sizes)
    order = order_of(images, 10)
    assert raw_bytes(images, Portions(order, range(1), 10)) >= sizes[-10:].sum()
    wrapping = order_of(images, 64, tail=Tail.WRAP)  # may have one image 64 times
    assert raw_bytes(images, Portions(wrapping, range(1), 64)) >= 64 * sizes[-1]


def first_rows(order: Order) -> Rows:
    return order.epoch(0).rows(0, 1, range(order.lanes))


@pytest.mark.parametrize("what", ["gone", "longer", "shorter"])
def test_a_file_that_is_not_the_listed_one_is_named(tmp_path: Path, what: str) -> None:
    images = make(tmp_path, 6)
    path = images.runs.path(4)
    if what == "gone":
        path.unlink()
    else:
        path.write_bytes(b"x" * (99 if what == "longer" else 1))
    order = order_of(images, 3, shuffle=Shuffle.NONE)
    portions = Portions(order, range(1), 3)
    message = {
        "gone": rf"sample_id 4: {path} cannot be opened: No such file",
        "longer": rf"sample_id 4: {path} has 99 bytes, it had 32 when it was listed",
        "shorter": rf"sample_id 4: {path} has 1 bytes, it had 32 when it was listed",
    }[what]
    with reading(images, portions) as store:
        store.begin(order.epoch(0), range(2))
        check(first_rows(order), store.gather(first_rows(order)))
        with pytest.raises(VolumeError, match=message):
            store.gather(order.epoch(0).rows(1, 1, range(1)))
    with pytest.raises(VolumeError, match=message):
        SingleImages(images).read(0, 4, stop=lambda: False)


def test_what_a_share_fails_for_a_while_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(block_io, "_FIRST_PAUSE_S", 0.001)
    images = make(tmp_path, 2)
    order = order_of(images, 2)
    portions = Portions(order, range(1), 2)
    left = [3]

    def failing(descriptor: int, memory: object, offset: int, path: Path, **stop: object) -> bool:
        if left[0]:
            left[0] -= 1
            raise VolumeError(f"{path}: reading failed.") from OSError(errno.EIO, "EIO")
        return read_into(descriptor, memory, offset, path, **stop)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(files_on_demand, "read_into", failing)
    with reading(images, portions, 1, retries=3) as store:
        store.begin(order.epoch(0), range(1))
        check(first_rows(order), store.gather(first_rows(order)))
        assert store.retries == 3
    assert "Trying again, 3 of 3" in caplog.text
    left[0] = 3
    with reading(images, portions, 1, retries=2) as store:
        store.begin(order.epoch(0), range(1))
        with pytest.raises(VolumeError, match=r"sample_id \d: .*reading failed"):
            store.gather(first_rows(order))


@contextmanager
def gated(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Reads wait for the second event; the first says that one does."""
    waiting, gate = threading.Event(), threading.Event()

    def stuck(*arguments: object, **stop: object) -> bool:
        waiting.set()
        assert gate.wait(30)
        return read_into(*arguments, **stop)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(files_on_demand, "read_into", stuck)
    try:
        yield waiting, gate
    finally:
        gate.set()


@pytest.mark.parametrize("how", ["end", "close"])
def test_whoever_waits_is_woken_by_the_end_of_the_pass_and_by_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    images = make(tmp_path, 8)
    order = order_of(images, 4)
    found: list[BaseException] = []

    def wait() -> None:
        try:
            store.gather(first_rows(order))
        except ClosedError as error:
            found.append(error)

    with (
        gated(monkeypatch) as (waiting, gate),
        reading(images, Portions(order, range(1), 4)) as store,
    ):
        store.begin(order.epoch(0), range(2))
        worker = threading.Thread(target=wait)
        worker.start()
        assert waiting.wait(20)
        store.end() if how == "end" else store.close(wait=False)
        worker.join(20)
        gate.set()
    assert [type(error) for error in found] == [ClosedError]
    assert not any(thread.is_alive() for thread in store.threads)


def test_a_pass_does_not_begin_while_the_one_before_still_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = make(tmp_path, 8)
    order = order_of(images, 4)
    portions = Portions(order, range(1), 2)
    with gated(monkeypatch) as (waiting, gate), reading(images, portions) as store:
        store.begin(order.epoch(0), range(2))
        assert waiting.wait(20)
        with pytest.raises(StallError, match="2 reads for the pass before have not returned"):
            store.begin(order.epoch(1), range(2), timeout_s=0.01)
        assert "2 images are being read" in store.progress()
        gate.set()
        assert len(deliver(store, portions, order.epoch(1), range(2))) == 8


def test_rows_of_an_ended_pass_may_still_be_released(tmp_path: Path) -> None:
    images = make(tmp_path, 4)
    order = order_of(images, 4)
    with reading(images, Portions(order, range(1), 4)) as store:
        store.begin(order.epoch(0), range(1))
        store.gather(first_rows(order))
        store.end()
        store.release(first_rows(order))
        with pytest.raises(ClosedError):
            store.gather(first_rows(order))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists descriptors")
def test_closing_leaves_no_file_open_and_no_thread(tmp_path: Path) -> None:
    def held() -> Sequence[int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    images = make(tmp_path, 20)
    order = order_of(images, 4)
    portions = Portions(order, range(1), 4)
    before = held()
    with reading(images, portions, 3) as store:
        deliver(store, portions, order.epoch(0), range(5))
    assert held() == before
