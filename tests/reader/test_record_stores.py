import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import ClosedError, MemoryPlanError, PlanError, SetError
from dtsflow.pipeline.phase import record_shuffle
from dtsflow.reader.order import Order, Rows, Shuffle, Tail
from dtsflow.reader.reader import Reader
from dtsflow.reader.record_stream import StreamStore
from dtsflow.reader.records import RECORD_BYTES, RecordStore, SingleRecords, record_bytes
from dtsflow.reader.rows import Portions, Selection
from dtsflow.volume.datasets.records import RecordSet


class Counted:
    """Records that are their own numbers; how many were read is counted."""

    def __init__(self, count: int, buffer: int | None) -> None:
        self.count, self.buffer = count, buffer
        self.reads: list[int] = []
        self.open = 0

    def __len__(self) -> int:
        return self.count

    def where(self, number: int) -> str:
        return f"record {number}"

    def digest(self) -> str:
        return str(self.count)


class Indexed(Counted):
    def start(self) -> "Indexed":
        self.open += 1
        return self

    def read(self, number: int) -> bytes:
        self.reads.append(number)
        return str(number).encode()

    def close(self) -> None:
        self.open -= 1


class Streamed(Counted):
    ends_at = 1 << 30

    def stream(self, first: int) -> Iterator[bytes]:
        self.open += 1
        try:
            for number in range(first, min(self.count, self.ends_at)):
                self.reads.append(number)
                yield str(number).encode()
        finally:
            self.open -= 1


def order_of(records: RecordSet, lanes: int, rows: int, tail: Tail = Tail.PAD) -> Order:
    shuffle = record_shuffle(Shuffle.BLOCKS, records, tail)
    return Order(records.counts, rows, lanes, seed=3, shuffle=shuffle, tail=tail)


def delivered(
    store: RecordStore | StreamStore, portions: Portions, start: int, epoch: int = 0
) -> list[bytes]:
    """All records of a pass in the order of the rows, portion by portion."""
    order = portions.order.epoch(epoch)
    table = portions.table(order)
    store.begin(order, range(start, order.steps))
    found: list[bytes] = []
    for portion in range(start * portions.of_batch, order.steps * portions.of_batch):
        rows = portions.rows_of(table, portion)
        rows = rows.only(np.flatnonzero(rows.valid))
        if len(rows):
            samples = store.gather(rows)
            found += [bytes(samples.data(n)) for n in range(len(samples))]
            assert found[-len(rows) :] == [str(number).encode() for number in rows.ids]
            store.release(rows)
    store.end()
    return found


@given(
    st.integers(1, 60), st.integers(0, 9), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.data()
)
def test_a_stream_delivers_what_random_access_does_from_any_step_on(
    count: int, buffer: int, lanes: int, q: int, data: st.DataObject
) -> None:
    streamed, indexed = (RecordSet("L", kind(count, buffer)) for kind in (Streamed, Indexed))
    order = order_of(streamed, lanes, lanes * q)
    assert order.shuffle is order_of(indexed, lanes, lanes * q).shuffle
    start = data.draw(st.integers(0, order.steps - 1))
    own = data.draw(st.sampled_from([range(lanes), range(lanes // 2, lanes)]))
    kept = np.flatnonzero(np.arange(count) % 3 != 1)
    selection = None
    if data.draw(st.booleans()) and len(kept) < count:
        selection = Selection.of(streamed, kept.astype(np.int64))
        order = Order(selection.counts, lanes * q, lanes, seed=3, shuffle=order.shuffle)
        start = min(start, order.steps - 1)
    portions = Portions(order, own, 2, selection)
    assert isinstance(indexed.records, Indexed)
    store, other = StreamStore(streamed, portions), RecordStore(indexed)
    try:
        found = delivered(store, portions, start)
        assert found == delivered(other, portions, start)
        if start == 0 and len(own) == lanes:
            chosen = range(count) if selection is None else selection.ids.tolist()
            assert sorted(map(int, found)) == sorted(chosen)
        assert not any(lane._kept for lane in store._lanes.values())
    finally:
        store.close()
        other.close()
    assert streamed.records.open == indexed.records.open == 0  # type: ignore[union-attr]  # both are Counted


class Long(Counted):
    """Records of known lengths, and what the loader itself holds."""

    held_bytes = 1000

    @property
    def lengths(self) -> list[int]:
        return [10 * (number % 7) for number in range(self.count)]

    def record(self, number: int) -> bytes:
        return b"x" * self.lengths[number]


class LongIndexed(Long, Indexed):
    def read(self, number: int) -> bytes:
        return self.record(number)


class LongStreamed(Long, Streamed):
    def stream(self, first: int) -> Iterator[bytes]:
        yield from map(self.record, range(first, self.count))


@given(st.integers(1, 60), st.integers(0, 9), st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_no_more_records_are_in_memory_than_are_planned(
    count: int, buffer: int, lanes: int, q: int
) -> None:
    for kind in (LongIndexed, LongStreamed):
        found = RecordSet("L", kind(count, buffer))
        order = order_of(found, lanes, lanes * q)
        portions = Portions(order, range(lanes), 2)
        start = order.steps // 3
        planned, is_known = record_bytes(found, portions, 2 * portions.of_batch, 1)
        assert is_known
        store = (StreamStore if found.is_stream else RecordStore)(*args_of(found, portions))
        epoch = order.epoch(0)
        store.begin(epoch, range(start, order.steps))
        in_hand: list[Rows] = []
        for step in range(start, order.steps):
            for portion in range(step * portions.of_batch, (step + 1) * portions.of_batch):
                rows = portions.rows_of(portions.table(epoch), portion)
                rows = rows.only(np.flatnonzero(rows.valid))
                if not len(rows):
                    continue
                store.gather(rows)
                in_hand.append(rows)
                assert 0 < store._memory._bytes <= planned
            # All of this batch and of the one before stay in hand, at the most.
            while in_hand and in_hand[0].numbers[0] < step * q:
                store.release(in_hand.pop(0))
        for rows in in_hand:
            store.release(rows)
        assert store._memory._bytes == 0
        store.close()


def args_of(found: RecordSet, portions: Portions) -> Any:
    return (found, portions) if found.is_stream else (found,)


def test_what_is_planned_is_what_the_longest_records_take() -> None:
    portions: dict[Tail, Portions] = {}
    for tail in (Tail.PAD, Tail.WRAP):
        order = order_of(RecordSet("L", LongIndexed(14, 0)), 2, 8, tail)
        portions[tail] = Portions(order, range(2), 4)
    indexed, streamed = (RecordSet("L", kind(14, 2)) for kind in (LongIndexed, LongStreamed))
    # Two workers have four records each in hand, twice: two of 60, 50, 40 and 30 bytes.
    known = 2 * 2 * (60 + 50 + 40 + 30) + 8 * RECORD_BYTES
    assert record_bytes(indexed, portions[Tail.PAD], 2, 1) == (known, True)
    # With wrap the longest one may come eight times.
    assert record_bytes(indexed, portions[Tail.WRAP], 2, 1) == (8 * (120 + RECORD_BYTES), True)
    # Each lane of a stream keeps two and two batches of four, together more than all.
    known = (420 + 14 * RECORD_BYTES) + 2 * (60 + 50 + 40 + 30) + 8 * RECORD_BYTES
    assert record_bytes(streamed, portions[Tail.PAD], 2, 1) == (known, True)
    # Chosen are those of no bytes, and one of ten.
    order = portions[Tail.PAD].order
    selection = Selection.of(indexed, np.array([0, 7, 8]))
    chosen = Portions(order, range(2), 4, selection)
    assert record_bytes(indexed, chosen, 2, 1) == (20 + 3 * RECORD_BYTES, True)
    unknown = RecordSet("L", Indexed(14, 0))
    assert record_bytes(unknown, portions[Tail.PAD], 2, 1001) == (1001, False)
    half = Portions(order, range(1), 4)
    assert record_bytes(unknown, half, 2, 1001) == (500, False)


@pytest.mark.parametrize("kind", [Indexed, Streamed])
def test_records_of_unknown_length_that_outgrow_the_limit_are_refused(kind: type[Counted]) -> None:
    found = RecordSet("L", kind(20, 0))  # type: ignore[arg-type]  # both kinds are records
    order = order_of(found, 1, 10)
    portions = Portions(order, range(1), 10)
    first = order.epoch(0).rows(0, 1, range(1))
    needed = 10 * (1 + RECORD_BYTES) + (10 if kind is Indexed else 10 * (1 + RECORD_BYTES))
    for limit in (needed, needed - 1):
        store = Reader(window_bytes=limit).open("raw", found, order, range(1), portions=portions)
        store.begin(order.epoch(0), range(2))
        if limit == needed:
            store.gather(first)
        else:
            told = rf"L: its records in memory take {needed:,} bytes .* leaves {limit:,} to it"
            with pytest.raises(MemoryPlanError, match=told):
                store.gather(first)
        store.close()


def test_a_record_that_is_longer_than_was_said_is_named() -> None:
    class Grown(LongIndexed):
        def record(self, number: int) -> bytes:
            return b"x" * (31 if number == 3 else 0)

    store = RecordStore(found := RecordSet("L", Grown(9, 0)))
    rows = order_of(found, 1, 9).epoch(0).rows(0, 1, range(1))
    with pytest.raises(SetError, match="L: record 3 has 31 bytes, and 30 were planned"):
        store.gather(rows)


def test_lengths_that_are_not_those_of_the_records_are_refused() -> None:
    for lengths in ([1, 2], [0.5] * 9, [-1] * 9):
        records = Indexed(9, 0)
        records.lengths = lengths  # type: ignore[attr-defined]  # as a loader may have it
        with pytest.raises(PlanError, match=r"the lengths of its records are .* must be 9 whole"):
            RecordSet("L", records)


def test_a_stream_is_read_no_further_than_the_buffer_of_what_is_asked_for() -> None:
    records = Streamed(1000, 10)
    order = order_of(RecordSet("L", records), 1, 5)
    store = StreamStore(RecordSet("L", records), Portions(order, range(1), 5))
    epoch = order.epoch(0)
    store.begin(epoch, range(order.steps))
    store.gather(epoch.rows(0, 1, range(1)))
    assert max(records.reads) < 10
    store.close()


def test_a_stream_that_ends_early_is_told_apart_from_its_count() -> None:
    records = Streamed(20, 0)
    records.ends_at = 7
    found = RecordSet("Liar", records)
    order = order_of(found, 1, 10)
    store = StreamStore(found, Portions(order, range(1), 10))
    store.begin(order.epoch(0), range(2))
    with pytest.raises(SetError, match=r"Liar: its stream ended after 7 records.* counted 20"):
        store.gather(order.epoch(0).rows(0, 1, range(1)))
    store.close()


def test_whoever_reads_when_the_pass_ends_is_told() -> None:
    found = RecordSet("L", Streamed(20, 0))
    order = order_of(found, 1, 10)
    store = StreamStore(found, Portions(order, range(1), 10))
    store.begin(order.epoch(0), range(2))
    store.end()
    with pytest.raises(ClosedError):
        store.gather(order.epoch(0).rows(0, 1, range(1)))


def test_every_thread_has_a_reader_of_its_own_and_all_are_closed() -> None:
    records = Indexed(8, None)
    store = RecordStore(RecordSet("L", records))
    order = order_of(RecordSet("L", records), 1, 4)
    rows = order.epoch(0).rows(0, 1, range(1))
    store.gather(rows)
    other = threading.Thread(target=store.gather, args=(rows,))
    other.start()
    other.join()
    store.gather(rows)
    assert records.open == 2
    store.close()
    assert records.open == 0
    with pytest.raises(ClosedError):
        store.gather(rows)


def test_a_substitute_is_read_alone() -> None:
    for kind in (Indexed, Streamed):
        found = RecordSet("L", kind(10, 4))
        samples = SingleRecords(found).read(1, 2, stop=lambda: False)
        assert bytes(samples.data(0)) == b"6"
        assert samples.ids.tolist() == [6]
        with pytest.raises(ClosedError):
            SingleRecords(found).read(1, 2, stop=lambda: True)
        assert found.records.open == 0  # type: ignore[union-attr]  # it is Counted


def test_a_loader_says_how_far_records_are_shuffled() -> None:
    free, kept, near = (RecordSet("L", Indexed(9, buffer)) for buffer in (None, 0, 4))
    assert record_shuffle(Shuffle.BLOCKS, free, Tail.PAD) is Shuffle.FULL
    assert record_shuffle(Shuffle.BLOCKS, kept, Tail.PAD) is Shuffle.NONE
    assert record_shuffle(Shuffle.BLOCKS, near, Tail.PAD) is Shuffle.WINDOWS
    assert record_shuffle(Shuffle.NONE, free, Tail.WRAP) is Shuffle.NONE
    assert near.counts.tolist() == [4, 4, 1]
    for found in (kept, near):
        with pytest.raises(PlanError, match="shuffle=full permutes all records, and L allows"):
            record_shuffle(Shuffle.FULL, found, Tail.PAD)
    with pytest.raises(PlanError, match=r"tail=wrap .* in a stream, once"):
        record_shuffle(Shuffle.NONE, RecordSet("L", Streamed(9, 4)), Tail.WRAP)
    with pytest.raises(PlanError, match="its buffer is None"):
        RecordSet("L", Streamed(9, None))
