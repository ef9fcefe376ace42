"""Where a chain is cut, and that its parts make what the whole does."""

from types import ModuleType

import numpy as np
import pytest

from dtsflow.errors import PlanError
from dtsflow.native.core import load
from dtsflow.po import (
    CenterCrop,
    ColorJitter,
    GaussianNoise,
    Normalize,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
)
from dtsflow.po.chain import Branch, CutChain
from dtsflow.po.operation import Operation
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

FP16 = Normalize(preset="imagenet", dtype=DType.FP16)
ERASE, FLIP = RandomErasing(p=1.0), RandomHorizontalFlip()
PHOTO = ImageSpec(None, None, 3)


def cut(*operations: Operation) -> CutChain:
    return CutChain.of(Branch.checked(operations, PHOTO, where="po"))


@pytest.mark.parametrize(
    ("operations", "head"),
    [
        ((RandomResizedCrop(9), FLIP, FP16), 2),
        ((RandomResizedCrop(9), FLIP), 2),
        ((CenterCrop(9), ERASE, FLIP, ColorJitter(0.4), FP16), 1),
        ((CenterCrop(9), FP16, ERASE), 1),
    ],
)
def test_a_chain_is_cut_before_what_erases_or_normalises(
    operations: tuple[Operation, ...], head: int
) -> None:
    found = cut(*operations)
    assert found.head.operations + found.tail.operations == operations
    assert len(found.head.operations) == head
    assert found.kept == ImageSpec(9, 9, 3)
    assert found.tail.specs[0] == found.kept


def test_what_has_no_one_size_at_the_cut_is_refused() -> None:
    with pytest.raises(PlanError, match=r"that RandomErasing gets are .* of different"):
        CutChain.of(Branch((ERASE, FP16), (PHOTO, PHOTO, PHOTO)))


@pytest.mark.parametrize("core", [None, load()], ids=["reference", "core if there"])
def test_head_and_tail_draw_and_make_what_the_whole_chain_does(core: ModuleType | None) -> None:
    operations = (RandomResizedCrop(9), FLIP, ERASE, GaussianNoise(sigma=20.0), FLIP, FP16)
    branch = Branch.checked(operations, PHOTO, where="po")
    parts = CutChain.of(branch)
    image = np.random.default_rng(1).integers(0, 256, (31, 40, 3), np.uint8)
    where = {"seed": 5, "epoch": 2, "phase": 1, "view": 3}
    ids = np.array([4, 99], np.int64)
    sizes = np.array([image.shape[:2]] * 2, np.int64)
    whole, head, tail = branch.program(), parts.head.program(core), parts.tail.program(core)
    drawn = whole.draw(ids=ids, sizes=sizes, **where)
    begun = head.draw(ids=ids, sizes=sizes, **where)
    ended, traced = tail.draw_with_sizes(ids=ids, sizes=np.full((2, 2), 9, np.int64), **where)
    for i in range(len(ids)):
        expected, found = np.empty((9, 9, 3), np.float16), np.empty((9, 9, 3), np.float16)
        between = np.empty((9, 9, 3), np.uint8)
        whole.run(image, expected, drawn, i)
        head.run(image, between, begun, i)
        tail.run(between, found, ended, i, traced)
        assert found.tobytes() == expected.tobytes()
    assert all(sizes.tolist() == [[9, 9]] * 2 for sizes in traced)
