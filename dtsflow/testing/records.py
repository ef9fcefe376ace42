"""Checks of what a plugin for records has: loader, parser and operations."""

import json
from collections.abc import Sequence
from itertools import islice, pairwise

import numpy as np

from dtsflow.decode.parser import Arrays, Parser, Parsing
from dtsflow.po.named_fields import check_fields
from dtsflow.po.record_operation import RecordOperation
from dtsflow.seed.draws import Draws, operation_draws
from dtsflow.spec import Field
from dtsflow.testing.sameness import assert_same, filled, pickled, whole
from dtsflow.volume.records import IndexedRecords, Loader, StreamedRecords

_LANES = 4


def check_loader(loader: Loader) -> list[bytes]:
    """Check a loader on a small data set, and answer all of its records.

    It pickles, finds the same each time, reads the same in whatever order, and its
    records split over lanes are the whole.

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
    return found


def check_parser(parser: Parser, records: Sequence[bytes]) -> dict[str, np.ndarray]:
    """Check a parser on good records, and answer the fields that they become.

    It pickles, writes what its fields say and all of it, the same for a record in
    whatever company, and keeps nothing that belongs to the caller.

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


def _streamed(records: StreamedRecords, count: int) -> list[bytes]:
    """All records as lanes read them: some streams at once, each from its own place."""
    bounds = [lane * count // _LANES for lane in range(_LANES + 1)]
    streams = [records.stream(first) for first in bounds[:-1]]
    sizes = [last - first for first, last in pairwise(bounds)]
    parts = [list(islice(stream, size)) for stream, size in zip(streams, sizes, strict=True)]
    return [record for part in parts for record in part]
