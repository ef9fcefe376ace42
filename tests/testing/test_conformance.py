"""That each broken contract is found, and a kept one is not."""

import itertools
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer import Count
from dtsflow.decode import Auto
from dtsflow.decode.parser import Arrays
from dtsflow.po import CenterCrop, RandomResizedCrop
from dtsflow.po.operation import Image, Params, Pixels, Row, Sizes
from dtsflow.seed.draws import Draws
from dtsflow.spec import Field, ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.testing import (
    check_consumer,
    check_decoder,
    check_loader,
    check_operation,
    check_parser,
    check_record_operation,
    jpeg,
)
from dtsflow.volume.data_set import Split
from dtsflow.volume.datasets.lines import LineRecords, list_lines

X = Field("x", (2,), DType.FP32)
RECORDS = [b"1,2", b"3,4", b"5,6"]
kept: list[Any] = []
numbers = itertools.count()


def right(records: Sequence[memoryview], out: Arrays) -> None:
    for row, record in enumerate(records):
        out["x"][row] = [float(word) for word in bytes(record).split(b",")]


def leaves_one_out(records: Sequence[memoryview], out: Arrays) -> None:
    for row, record in enumerate(records):
        out["x"][row, 0] = float(bytes(record)[:1])


def looks_at_others(records: Sequence[memoryview], out: Arrays) -> None:
    right(records, out)
    out["x"][:] += len(records)


def keeps_a_record(records: Sequence[memoryview], out: Arrays) -> None:
    right(records, out)
    kept.append(np.frombuffer(records[0], np.uint8))


def keeps_a_row(records: Sequence[memoryview], out: Arrays) -> None:
    right(records, out)
    kept.append(out["x"][0])


def writes_beside(records: Sequence[memoryview], out: Arrays) -> None:
    right(records, out)
    np.lib.stride_tricks.as_strided(out["x"], (len(records) + 1, 2))[-1] = 7


def counts_calls(_records: Sequence[memoryview], out: Arrays) -> None:
    kept.append(None)
    out["x"][:] = len(kept)


PARSES = {
    parse.__name__: parse
    for parse in (
        right, leaves_one_out, looks_at_others, keeps_a_record, keeps_a_row, writes_beside,
        counts_calls,
    )
}  # fmt: skip


@configurable
class Broken:
    """Parses as one of the functions above does."""

    how: str = "right"

    fields = (X,)

    def start(self) -> "Broken":
        return self

    def parse(self, records: Sequence[memoryview], out: Arrays) -> None:
        PARSES[self.how](records, out)


def test_a_parser_that_keeps_its_contract_passes() -> None:
    assert check_parser(Broken(), RECORDS)["x"].tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("leaves_one_out", "leaves elements unwritten, or is not deterministic"),
        ("looks_at_others", "makes another row of record 0 alone"),
        ("keeps_a_record", "keeps a view of a record"),
        ("keeps_a_row", "keeps a view of field 'x'"),
        ("writes_beside", "writes beside the rows of field 'x'"),
        ("counts_calls", "not deterministic"),
    ],
)
def test_a_parser_that_breaks_its_contract_is_told_how(how: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_parser(Broken(how), RECORDS)
    kept.clear()


def test_what_is_not_configurable_is_told_so() -> None:
    class Plain:
        fields = (X,)

        def start(self) -> Any: ...

    with pytest.raises(AssertionError, match="Plain is not @configurable"):
        check_parser(Plain(), RECORDS)


@configurable
class Lines:
    """The lines of a file, some of them wrong in the way of `how`."""

    path: str
    how: str = "right"

    def records(self) -> Any:
        lines = list_lines([Path(self.path)])
        rank, size = (int(os.environ.get(name, "1")) for name in ("RANK", "WORLD_SIZE"))
        shares = {"share": slice(rank % size, None, size), "own part": slice(9 - rank)}
        if own := shares.get(self.how):
            lines = replace(lines, starts=lines.starts[own], lengths=lines.lengths[own])
        if self.how in ("broadcast", "own part"):
            return replace(lines, split=Split.BROADCAST)
        if self.how in ("right", "share"):
            return lines
        kinds = {"streams": Streaming, "halves": Halves, "longer": Longer}
        return kinds[self.how](lines) if self.how in kinds else Forgetful(lines, self.how)


class Streaming:
    buffer = 2

    def __init__(self, lines: LineRecords) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, number: int) -> str:
        return self.lines.where(number)

    def digest(self) -> str:
        return self.lines.digest()

    def stream(self, first: int) -> Iterator[bytes]:
        reader = self.lines.start()
        try:
            yield from map(reader.read, range(first, len(self)))
        finally:
            reader.close()


class Halves(Streaming):
    split = "halves"


class Longer(Streaming):
    @property
    def lengths(self) -> Any:
        return self.lines.lengths - 2


class Forgetful(Streaming):
    stream = None  # type: ignore[assignment]  # it has only random access

    def __init__(self, lines: LineRecords, how: str) -> None:
        super().__init__(lines)
        self.how, self.turns = how, 0

    def digest(self) -> str:
        return super().digest() if self.how != "digest" else str(id(self))

    def start(self) -> "Forgetful":
        return self

    def read(self, number: int) -> Any:
        self.turns += 1
        reader = self.lines.start()
        line = reader.read(number)
        reader.close()
        return {"order": line + str(self.turns).encode(), "text": line.decode()}.get(self.how, line)

    def close(self) -> None: ...


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\n".join(b"line %d" % number for number in range(9)))
    return str(path)


@pytest.mark.parametrize("how", ["right", "streams", "broadcast"])
def test_a_loader_that_keeps_its_contract_passes(lines: str, how: str) -> None:
    assert check_loader(Lines(lines, how))[8] == b"line 8"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("digest", "the digest of the same records differs"),
        ("order", "a record depends on which were read before it"),
        ("text", "record 0 is str"),
        ("halves", "split='halves', and it must be 'split\\(0\\)' or 'broadcast'"),
        ("longer", "record 0 has 6 bytes, and its length is 5"),
        ("share", "2 ranks of split split\\(0\\) have 4 records together, not the 9"),
        ("own part", "2 ranks of split broadcast have 9 records each, not the 8"),
    ],
)
def test_a_loader_that_breaks_its_contract_is_told_how(lines: str, how: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_loader(Lines(lines, how))


@configurable
class Shift:
    """Adds to x what was drawn, wrong in the way of `how`."""

    how: str = "right"

    words = 1

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return (replace(fields[0], dtype=DType.FP64),)

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:
        out["x"][:] = records["x"] + draws.uniform(0)[:, None]
        if self.how == "mean":
            out["x"][:] -= records["x"].mean()
        if self.how == "input":
            records["x"][:] = 0


def test_an_operation_on_records_is_checked() -> None:
    check_record_operation(Shift(), (X,))
    for how, told in (("mean", "another row of sample 0 alone"), ("input", "changes the records")):
        with pytest.raises(AssertionError, match=told):
            check_record_operation(Shift(how), (X,))


@configurable
class Copy:
    """Copies images, wrong in the way of `how`."""

    how: str = "right"

    words = 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, height=5) if self.how == "spec" else spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        params = np.zeros(len(sizes), [("shift", np.int64)])
        params["shift"] = len(sizes) if self.how == "company" else draws.integers(0, 4)
        return params

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # as it must
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        if self.how == "unwritten":
            out[1:] = image[1:]
        else:
            out[...] = image + params["shift"].astype(np.uint8)


def test_an_operation_on_images_is_checked() -> None:
    for operation in (Copy(), CenterCrop(8), RandomResizedCrop(12)):
        check_operation(operation)
    for how, told in (
        ("spec", "out_spec says"),
        ("company", "draws otherwise in other company"),
        ("unwritten", "leaves pixels unwritten"),
    ):
        with pytest.raises(AssertionError, match=told):
            check_operation(Copy(how))


def test_a_decoder_is_checked() -> None:
    check_decoder(Auto(), [jpeg(), jpeg(9, 8, seed=1)])
    with pytest.raises(AssertionError, match="it must raise DecodeError"):
        check_decoder(Auto(), [jpeg()], bad=jpeg(seed=2))


@configurable
class Taker:
    """Takes batches, wrong in the way of `how`."""

    how: str = "right"

    def open(self, setting: Any) -> Any:  # noqa: ARG002  # as a consumer has it
        return Taking(self.how)


class Taking:
    def __init__(self, how: str) -> None:
        self.how = how

    def take(self, batch: Batch) -> None:
        if self.how == "writes":
            batch.x[0] += 1

    def finish(self, phase: str, epoch: int) -> Any:  # noqa: ARG002  # as a sink has it
        return 3 if self.how == "says" else ""

    def results(self) -> dict[str, Any]:
        found = {"array": np.ones(1), "differs": next(numbers)}
        return {"found": found.get(self.how, 1)}


def test_a_consumer_is_checked() -> None:
    assert check_consumer(Count()) == {}
    assert check_consumer(Taker()) == {"found": 1}
    for how, told in (
        ("writes", "Taker writes to a batch"),
        ("says", "answers 3, and not a text"),
        ("array", "no plain JSON values"),
        ("differs", "answers otherwise each time"),
    ):
        with pytest.raises(AssertionError, match=told):
            check_consumer(Taker(how))


def test_a_class_that_does_not_pickle_is_told_so() -> None:
    @configurable
    class Local:
        fields = (X,)

        def start(self) -> Any: ...

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(Local())
    with pytest.raises(AssertionError, match="Local does not pickle"):
        check_parser(Local(), RECORDS)
