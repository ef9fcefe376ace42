from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dtsflow.cli.bench_cost import Work, batch_cost, cost, mixed, stages
from dtsflow.cli.bench_pictures import example, names, photos
from dtsflow.errors import PlanError
from dtsflow.native.core import load
from dtsflow.po import (
    CenterCrop,
    DoNothing,
    Mixup,
    Normalize,
    RandomErasing,
    RandomResizedCrop,
    Resize,
)
from dtsflow.po.operation import Image, Operation, Pixels, Row
from dtsflow.station.double_buffer import Station
from dtsflow.tensor.dtype import DType

core = load()
PHOTOS = photos(4, 24, 20, 3)
OPERATIONS = [
    one for name in names() if isinstance(one := example(name, 24, 20).operation, Operation)
]


def same(made: list[npt.NDArray[Any]], wanted: list[npt.NDArray[Any]]) -> bool:
    pairs = zip(made, wanted, strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.skipif(core is None, reason="there is no compiled core")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: type(one).__name__)
def test_both_forms_are_measured_at_the_same_results(operation: Operation) -> None:
    assert core is not None
    work = Work([operation], list(PHOTOS))
    native = work.native(core)
    assert native is not None
    assert same(native(), work.results())


@pytest.mark.skipif(core is None, reason="there is no compiled core")
def test_a_whole_chain_writes_padded_rows_as_a_run_does() -> None:
    assert core is not None
    chain: list[Operation] = [RandomResizedCrop(16), Normalize(preset="imagenet", dtype=DType.FP16)]
    work = Work(chain, list(PHOTOS), Station().stored_channels)
    native = work.native(core)
    assert native is not None
    made = native()
    assert made[0].strides[1] == 4 * 2
    assert same(made, work.results())


@pytest.mark.skipif(core is None, reason="there is no compiled core")
def test_images_of_several_sizes_are_measured() -> None:
    assert core is not None
    images = [photos(1, height, 20, 3)[0] for height in (24, 30, 11)]
    work = Work([Resize(12)], images)
    native = work.native(core)
    assert native is not None
    assert [one.shape for one in native()] == [(14, 12, 3), (18, 12, 3), (12, 21, 3)]
    assert same(native(), work.results())


def test_a_figure_is_given_for_every_repeat_and_form() -> None:
    found = cost(Work([CenterCrop(8)], list(PHOTOS)), core, repeats=3)
    assert len(found.draw) == len(found.reference) == 3
    assert min(*found.draw, *found.reference) > 0
    assert found.native is None if core is None else len(found.native or ()) == 3
    without = cost(Work([CenterCrop(8)], list(PHOTOS)), None, repeats=1)
    assert without.native is None


def test_each_operation_of_a_chain_gets_what_those_before_it_leave() -> None:
    chain: list[Operation] = [
        RandomResizedCrop(16),
        CenterCrop(8),
        Normalize(preset="imagenet", dtype=DType.FP16),
        RandomErasing(p=1),
    ]
    works = stages(chain, list(PHOTOS))
    assert [work.images[0].shape for work in works] == [(24, 20, 3), (16, 16, 3), *[(8, 8, 3)] * 2]
    assert works[3].images is works[2].images  # both are in the one final write
    assert same(works[0].results(), list(works[1].images))
    with pytest.raises(PlanError, match="preset mnist is for 1 channel"):
        stages([Normalize(preset="mnist")], list(PHOTOS))


def test_a_batch_operation_mixes_the_images_as_one_lane() -> None:
    after = mixed(Mixup(), PHOTOS)
    assert after.shape == PHOTOS.shape
    assert all((after[i] != PHOTOS[i]).any() for i in range(len(PHOTOS)))
    found = batch_cost(Mixup(), PHOTOS, core, repeats=2)
    assert len(found.draw) == len(found.reference) == 2
    assert len(found.native or ()) == (0 if core is None else 2)
    assert batch_cost(Mixup(), PHOTOS, None, repeats=1).native is None


def test_of_an_operation_without_a_native_form_only_the_reference_is_measured() -> None:
    class Plain:
        words = 0

        def __init__(self) -> None:
            self._other = DoNothing()
            self.out_spec = self._other.out_spec
            self.draw = self._other.draw
            self.out_sizes = self._other.out_sizes

        def apply(self, image: Image, out: Pixels, params: Row) -> None:
            del params
            out[...] = 255 - image

    plain: Any = Plain()
    found = cost(Work([plain], list(PHOTOS)), core, repeats=1)
    assert found.native is None
    assert np.array_equal(Work([plain], list(PHOTOS)).results()[0], 255 - PHOTOS[0])
