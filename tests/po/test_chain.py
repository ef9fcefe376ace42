import numpy as np
import pytest
from pydantic import ValidationError

from dtsflow.config.configurable import is_configurable
from dtsflow.errors import PlanError
from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    CutMix,
    GaussianBlur,
    GaussianNoise,
    Mixup,
    Normalize,
    RandAugment,
    RandomAutocontrast,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Schedule,
    TrivialAugmentWide,
)
from dtsflow.po.operation import Draws, Image, Operation, Params, Pixels, Row, Sizes
from dtsflow.po.schedule import Scheduled
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

PHOTO = ImageSpec(None, None, 3)
TRAIN = (
    RandomResizedCrop(8),
    RandomHorizontalFlip(),
    Normalize(preset="imagenet", dtype=DType.FP16),
)


class Invert:
    """What a plugin would bring: no dtsflow class, yet an operation."""

    words = 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        assert draws.words.shape == (len(sizes), 0)
        return np.empty(len(sizes), np.dtype([]))

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:
        assert len(params) == len(sizes)
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        assert params.dtype.names in (None, ())
        out[...] = 255 - image


@pytest.mark.parametrize(
    "named",
    [
        CenterCrop,
        Chain,
        ColorJitter,
        GaussianBlur,
        GaussianNoise,
        Normalize,
        RandAugment,
        RandomAutocontrast,
        RandomErasing,
        RandomGrayscale,
        RandomHorizontalFlip,
        RandomResizedCrop,
        Resize,
        TrivialAugmentWide,
    ],
)
def test_yaml_finds_each_operation(named: type) -> None:
    assert is_configurable(named)
    assert getattr(__import__("dtsflow.po", fromlist=["x"]), named.__name__) is named


def test_every_operation_is_one() -> None:
    operations: list[Operation] = [*TRAIN, Resize(8), CenterCrop(8), Invert()]
    assert all(isinstance(operation, Operation) for operation in operations)
    assert not isinstance(Chain(), Operation)


def test_specs_are_threaded_through() -> None:
    specs = Chain(TRAIN).specs(PHOTO)
    fixed = ImageSpec(8, 8, 3)
    assert specs == [PHOTO, fixed, fixed, ImageSpec(8, 8, 3, DType.FP16)]


def test_a_list_becomes_the_operations_themselves() -> None:
    flip = RandomHorizontalFlip()
    assert Chain([flip]).operations[0] is flip  # type: ignore[arg-type]


def test_what_is_no_operation_is_refused() -> None:
    with pytest.raises(ValidationError, match="instance of Operation"):
        Chain(("flip",))  # type: ignore[arg-type]


def test_without_normalize_the_row_is_uint8() -> None:
    chain = Chain((CenterCrop(8),))
    assert chain.specs(PHOTO)[-1].dtype is DType.UINT8
    assert chain.normalize is None
    assert Chain().normalize is None
    assert Chain(TRAIN).normalize is TRAIN[-1]


def test_an_empty_chain_passes_images_of_one_size() -> None:
    assert Chain().specs(ImageSpec(28, 28, 1)) == [ImageSpec(28, 28, 1)]


@pytest.mark.parametrize(
    "operations", [(), (Resize(256),), (RandomHorizontalFlip(), Normalize(preset="none"))]
)
def test_images_of_different_sizes_are_refused_with_what_to_add(
    operations: tuple[Operation, ...],
) -> None:
    with pytest.raises(PlanError, match=r"po\.operations: .*RandomResizedCrop, CenterCrop, or Res"):
        Chain(operations).specs(PHOTO)


@pytest.mark.parametrize("dtype", [DType.FP32, DType.UINT8])
def test_an_operation_behind_normalize_is_refused(dtype: DType) -> None:
    chain = Chain((CenterCrop(8), Normalize(preset="none", dtype=dtype), RandomHorizontalFlip()))
    with pytest.raises(
        PlanError, match=r"po\.operations\[2\] \(RandomHorizontalFlip\): it comes after Normalize"
    ):
        chain.specs(PHOTO)


def test_normalizing_twice_is_refused() -> None:
    chain = Chain((CenterCrop(8), *[Normalize(preset="none")] * 2))
    with pytest.raises(PlanError, match=r"po\.operations\[2\] \(Normalize\): .* there can be one"):
        chain.specs(PHOTO)


def test_a_refusal_says_which_operation_refused() -> None:
    chain = Chain((CenterCrop(8), Normalize(preset="mnist")))
    with pytest.raises(PlanError, match=r"^po\.operations\[1\] \(Normalize\): preset mnist"):
        chain.specs(PHOTO)
    with pytest.raises(PlanError, match=r"^phases\.val\.po\.operations\[1\] \(Normalize\): "):
        chain.specs(PHOTO, where="phases.val.po.operations")


def test_the_plan_shows_a_line_for_each_operation() -> None:
    assert Chain((*TRAIN[:2], Invert(), TRAIN[2])).describe() == [
        "RandomResizedCrop(size=8, scale=(0.08, 1), ratio=(0.75, 1.333), antialias=True)",
        "RandomHorizontalFlip(p=0.5)",
        "Invert()",
        "Normalize(preset=imagenet, dtype=FP16)",
    ]


def test_each_view_is_a_chain_of_its_own_from_the_decoded_image_on() -> None:
    chain = Chain(TRAIN, views={"small": (Resize(4, fit="square"),), "other": (CenterCrop(9),)})
    branches = chain.branches(PHOTO)
    assert list(branches) == ["images", "small", "other"]
    assert branches["images"].specs == tuple(Chain(TRAIN).specs(PHOTO))
    assert branches["small"].specs == (PHOTO, ImageSpec(4, 4, 3))
    assert branches["other"].out_spec == ImageSpec(9, 9, 3)


def test_no_views_may_be_written_as_null() -> None:
    assert Chain(TRAIN, views=None) == Chain(TRAIN)  # type: ignore[arg-type]


def test_a_view_that_makes_no_batch_is_refused_with_its_place_and_epoch() -> None:
    with pytest.raises(PlanError, match=r"^phases\.val\.po\.views\.small: .*different sizes"):
        Chain(TRAIN, views={"small": (Resize(4),)}).branches(PHOTO, where="phases.val.po")
    size = Schedule(((0, 8), (3, 9)))
    scheduled = Scheduled.of("dtsflow.po.Resize", {"size": size})
    with pytest.raises(PlanError, match=r"po\.operations: .*\(From epoch 3 on\.\)"):
        Chain((scheduled,)).branches(PHOTO, 3)


@pytest.mark.parametrize("name", ["", "two words", "_own", "a-b", "1st"])
def test_a_view_needs_a_name_that_is_one(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot name a field"):
        Chain(TRAIN, views={name: (CenterCrop(9),)})


def test_more_views_than_an_address_can_tell_apart_are_refused() -> None:
    chain = Chain(TRAIN, views={f"v{i}": (CenterCrop(9),) for i in range(256)})
    with pytest.raises(PlanError, match="view 256"):
        chain.branches(PHOTO)


def test_what_mixes_batches_is_no_operation_on_images_and_the_other_way_round() -> None:
    alpha = {"alpha": Schedule(((0, 0.2), (5, 0.4)))}
    mixup = Scheduled.of("dtsflow.po.Mixup", alpha)
    chain = Chain(TRAIN, batch=(mixup, CutMix()))
    assert chain.changes == (0, 5)
    assert chain.batch_operations(4) == (Mixup(0.2), CutMix())
    assert chain.batch_operations(5) == (Mixup(0.4), CutMix())
    with pytest.raises(ValidationError, match="instance of Operation"):
        Chain((Mixup(),))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="Mixup cannot stand here"):
        Chain((mixup,))
    with pytest.raises(ValidationError, match="Mixup"):
        Chain(TRAIN, batch=(RandomHorizontalFlip(),))  # type: ignore[arg-type]


def test_facts_name_only_what_is_there() -> None:
    assert list(Chain(TRAIN).facts()) == ["po"]
    facts = Chain(TRAIN, views={"small": (CenterCrop(9),)}, batch=(Mixup(),)).facts()
    assert facts["po"] == Chain(TRAIN).facts()["po"]
    assert facts["views"] == [["small", [f"dtsflow.po.crop.{CenterCrop(9)!r}"]]]
    assert facts["batch"] == ["dtsflow.po.mixup.Mixup(alpha=1.0)"]
