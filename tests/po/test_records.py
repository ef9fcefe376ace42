from dataclasses import replace

import numpy as np
import pytest

from dtsflow.config.configurable import configurable
from dtsflow.decode.parser import Arrays
from dtsflow.errors import PlanError
from dtsflow.po.records import RecordChain, RecordProgram, check_fields
from dtsflow.seed.draws import Draws
from dtsflow.spec import Field
from dtsflow.tensor.dtype import DType

X = Field("x", (2,), DType.FP32)


@configurable
class Shift:
    """Adds a random number below `most` to x."""

    most: int = 4

    @property
    def words(self) -> int:
        return 1

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        if fields[0].name != "x":
            raise PlanError("it takes x")
        return (replace(fields[0], dtype=DType.FP64), Field("by", (), DType.INT32))

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:
        out["by"][:] = draws.integers(0, self.most)
        out["x"][:] = records["x"] + out["by"][:, None]


def test_operations_thread_fields_and_draw_by_their_place() -> None:
    chain = RecordChain((Shift(1000), Shift(1000)))
    fields = chain.fields((X,))
    assert [[str(f.dtype.value) for f in of] for of in fields] == [
        ["FP32"], ["FP64", "INT32"], ["FP64", "INT32"],
    ]  # fmt: skip
    program = RecordProgram(chain.operations, fields)
    out = {field.name: field.empty(3) for field in fields[-1]}
    entry = program.entry(3, out)
    entry["x"][:] = 0
    program.run(entry, out, seed=1, ids=np.array([5, 6, 7]), epoch=0, phase=0)
    both = out["x"][:, 0].copy()
    assert len(set(both)) == 3
    assert not np.array_equal(both - out["by"], out["by"])  # the second drew otherwise
    entry = program.entry(1, {name: array[:1] for name, array in out.items()})
    entry["x"][:] = 0
    program.run(
        entry,
        {name: array[:1] for name, array in out.items()},
        seed=1, ids=np.array([6]), epoch=0, phase=0,
    )  # fmt: skip
    assert out["x"][0, 0] == both[1]


def test_without_operations_a_parser_writes_to_the_batch_itself() -> None:
    out = {"x": X.empty(2)}
    assert RecordProgram((), [(X,)]).entry(2, out) is out


def test_a_refusal_is_told_with_its_place() -> None:
    with pytest.raises(PlanError, match=r"^po\.operations\[0\] \(Shift\): it takes x"):
        RecordChain((Shift(),)).fields((replace(X, name="y"),))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ((), "leaves no field"),
        ((replace(X, name="a b"),), "its name must be a word"),
        ((replace(X, name="_x"),), "its name must be a word"),
        ((replace(X, name="images"),), "a batch has something else of that name"),
        ((X, X), "two of that name"),
        ((replace(X, shape=(1, 2, 3, 4)),), "at most 3 sides"),
        ((replace(X, shape=(0,)),), "sides of 1 or more"),
    ],
)
def test_fields_that_no_batch_can_have_are_refused(fields: tuple[Field, ...], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        check_fields(fields)
