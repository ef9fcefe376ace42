"""Checks of a plugin for records: of its loader, parser and operations."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise

import numpy as np

from dtsflow.decode.parser import Arrays, Parser, Parsing
from dtsflow.errors import PlanError
from dtsflow.pipeline.phase import own_lanes, record_shuffle
from dtsflow.po.records import RecordOperation, check_fields
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.reader.reader import Reader
from dtsflow.reader.rows import Portions
from dtsflow.seed.draws import Draws, operation_draws
from dtsflow.spec import Field
from dtsflow.testing.sameness import assert_same, filled, pickled, whole
from dtsflow.volume.data_set import Split, split_of
from dtsflow.volume.datasets.records import (
    IndexedRecords,
    Loader,
    RecordSet,
    StreamedRecords,
    lengths_of,
)

_LANES = 4


def check_loader(loader: Loader) -> list[bytes]:
    """Check a loader on a small data set, and return all of its records.

    The loader pickles, finds the same each time, and reads the same in any order. With
    the split of its records, the ranks together get all records, or each rank gets all.
    For that it must not take a share by itself by RANK and WORLD_SIZE.

    Raises:
        AssertionError: It does not.
    """
    name = type(loader).__name__
    assert isinstance(loader, Loader), f"{name} has no method records()"
    records, again = loader.records(), pickled(loader).records()
    count = len(records)
    assert count, f"{name} finds no record in this data set"
    assert len(again) == count, f"{name} finds {count} records, then {len(again)}"
    assert records.digest() == again.digest(), f"{name}: the digest of the same records differs"
    try:
        split, lengths = split_of(records, name), lengths_of(records, count, name)
    except PlanError as error:
        raise AssertionError(str(error)) from error
    assert split is split_of(again, name), f"{name}: the split of the same records differs"
    json.dumps([records.digest(), *(records.where(number) for number in range(count))])
    if isinstance(records, IndexedRecords):
        found = _indexed(name, records)
        other = _indexed(name, pickled(loader).records(), backwards=True)
    else:
        assert isinstance(records, StreamedRecords), f"{name}: records need start() or stream()"
        assert records.buffer is not None, f"{name}: the buffer of a stream is a number"
        found = list(records.stream(0))
        other = _streamed(records, count)
    assert len(found) == count, f"{name} says {count} records, and gives {len(found)}"
    assert found == other, f"{name}: a record depends on which were read before it"
    for number, record in enumerate(found):
        assert isinstance(record, bytes), f"{name}: record {number} is {type(record).__name__}"
        assert lengths is None or len(record) <= lengths[number], (
            f"{name}: record {number} has {len(record)} bytes, and its length is {lengths[number]}"
        )
    for ranks in (2, _LANES):
        _check_split(loader, found, split, ranks)
    return found


def check_parser(parser: Parser, records: Sequence[bytes]) -> dict[str, np.ndarray]:
    """Check a parser on good records, and return the fields that they become.

    The parser pickles. It writes exactly its fields and all of them, the same for a
    record beside any others, and keeps nothing that belongs to the caller.

    Raises:
        AssertionError: It does not.
    """
    name = type(parser).__name__
    assert isinstance(parser, Parser), f"{name} has no fields or no start()"
    assert len(records) > 1, "give the check two records at least"
    fields = check_fields(parser.fields)
    parsing, other = parser.start(), pickled(parser).start()
    together = whole(fields, len(records), lambda out: _parse(name, parsing, records, out), name)
    for place, record in enumerate(records):
        alone = whole(fields, 1, lambda out, one=record: _parse(name, other, [one], out), name)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        assert_same(
            alone,
            {key: rows[place : place + 1] for key, rows in together.items()},
            f"{name} makes another row of record {place} alone than among others",
        )
    return together


def check_record_operation(
    operation: RecordOperation, fields: Sequence[Field], *, rows: int = 16, seed: int = 0
) -> None:
    """Check an operation on records of these fields, which hold random small numbers.

    Raises:
        AssertionError: It breaks its contract.
    """
    name = type(operation).__name__
    twin = pickled(operation)
    out_fields = check_fields(operation.out_fields(tuple(fields)))
    assert out_fields == check_fields(twin.out_fields(tuple(fields))), f"{name}: out_fields differ"
    rng = np.random.default_rng(seed)
    records = {
        field.name: rng.integers(0, 100, (rows, *field.shape)).astype(field.dtype.numpy)
        for field in fields
    }
    before = {key: array.copy() for key, array in records.items()}
    draws = _draws(operation, rows)
    filled(out_fields, rows, lambda out: operation.apply(records, out, draws), 0, name)
    assert_same(before, records, f"{name} changes the records that go in")
    together = whole(out_fields, rows, lambda out: operation.apply(records, out, draws), name)
    for place in range(rows):
        one = slice(place, place + 1)
        own = {key: array[one] for key, array in records.items()}
        of_one = Draws(draws.words[one])
        alone = whole(out_fields, 1, lambda out: twin.apply(own, out, of_one), name)  # noqa: B023  # called at once
        part = {key: array[one] for key, array in together.items()}
        assert_same(alone, part, f"{name} makes another row of sample {place} alone")


def _draws(operation: RecordOperation, rows: int) -> Draws:
    ids = np.arange(rows, dtype=np.int64)
    words = (operation.words,)
    return operation_draws(seed=0, ids=ids, epoch=0, phase=0, view=0, words=words)[0]


def _parse(name: str, parsing: Parsing, records: Sequence[bytes], out: Arrays) -> None:
    """Let it parse bytes that can tell whether somebody keeps a view of them."""
    memory = bytearray(b"".join(records))
    ends = np.cumsum([len(record) for record in records]).tolist()
    with memoryview(memory) as every:
        views = [every[end - len(record) : end] for end, record in zip(ends, records, strict=True)]
        parsing.parse(views, out)
        for view in views:
            view.release()
    try:
        memory.clear()  # which whoever still sees it forbids
    except BufferError as error:
        raise AssertionError(f"{name} keeps a view of a record: {error}") from error


def _indexed(name: str, records: object, *, backwards: bool = False) -> list[bytes]:
    assert isinstance(records, IndexedRecords), f"{name} gives records of another kind each time"
    numbers = range(len(records))
    reader = records.start()
    try:
        found = {number: reader.read(number) for number in numbers[:: -1 if backwards else 1]}
    finally:
        reader.close()
    return [found[number] for number in numbers]


def _check_split(loader: Loader, found: Sequence[bytes], split: Split, ranks: int) -> None:
    """Read an epoch as so many ranks do, each with a loader of its own."""
    name = type(loader).__name__
    parts: list[list[bytes]] = []
    for rank in range(ranks):
        with _told(rank, ranks):
            records = pickled(loader).records()
            parts.append(_of_rank(RecordSet(name, records), Rank(rank, ranks)))
    is_broadcast = split is Split.BROADCAST
    together = parts if is_broadcast else [[record for part in parts for record in part]]
    for part in together:
        assert sorted(part) == sorted(found), (
            f"{name}: {ranks} ranks of split {split.value} have {len(part)} records "
            f"{'each' if is_broadcast else 'together'}, not the {len(found)} that there are"
        )


@contextmanager
def _told(rank: int, ranks: int) -> Iterator[None]:
    """Have the environment of a rank."""
    told = {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _of_rank(records: RecordSet, rank: Rank) -> list[bytes]:
    """Return the records that a rank is given in an epoch, batch by batch."""
    shuffle = record_shuffle(Shuffle.BLOCKS, records, Tail.PAD)
    order = Order(records.counts, _LANES, _LANES, seed=0, shuffle=shuffle)
    portions = Portions(order, own_lanes(records, order, rank), _LANES)
    table = portions.table(order.epoch(0))
    store = Reader().open("raw", records, order, portions.lanes, portions=portions)
    found: list[bytes] = []
    try:
        store.begin(order.epoch(0), range(order.steps))
        for step in range(order.steps):
            rows = table.rows(step)
            rows = rows.only(np.flatnonzero(rows.valid))
            if len(rows):
                samples = store.gather(rows)
                found += [bytes(samples.data(number)) for number in range(len(samples))]
                store.release(rows)
        store.end()
    finally:
        store.close()
    return found


def _streamed(records: StreamedRecords, count: int) -> list[bytes]:
    """Read all records as lanes do: some streams at once, each from its own start."""
    bounds = [lane * count // _LANES for lane in range(_LANES + 1)]
    streams = [records.stream(first) for first in bounds[:-1]]
    sizes = [last - first for first, last in pairwise(bounds)]
    parts = [list(islice(stream, size)) for stream, size in zip(streams, sizes, strict=True)]
    return [record for part in parts for record in part]
