"""A state written by any version names operations as this one does."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from dtsflow import po
from dtsflow.config.configurable import is_configurable
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.po.records import Arrays, Draws
from dtsflow.spec import Field

# As the first states have them; each is a whole fact. None may ever change.
FACTS: dict[str, tuple[Any, str]] = {
    "CenterCrop": (
        po.CenterCrop(8),
        "dtsflow.po.crop.CenterCrop(size=8, compat='torchvision')",
    ),
    "ColorJitter": (
        po.ColorJitter(brightness=0.4),
        "dtsflow.po.jitter.ColorJitter(brightness=0.4, contrast=0.0, saturation=0.0, hue=0.0)",
    ),
    "CutMix": (po.CutMix(), "dtsflow.po.mixup.CutMix(alpha=1.0)"),
    "DoNothing": (po.DoNothing(), "dtsflow.po.identity.DoNothing()"),
    "FastRandomResizedCrop": (
        po.FastRandomResizedCrop(8),
        "dtsflow.po.fast_crop.FastRandomResizedCrop(size=8, scale=(0.08, 1.0), "
        "ratio=(0.75, 1.3333333333333333), antialias=True)",
    ),
    "GaussianBlur": (
        po.GaussianBlur(3),
        "dtsflow.po.blur.GaussianBlur(kernel_size=3, sigma=(0.1, 2.0))",
    ),
    "GaussianNoise": (po.GaussianNoise(), "dtsflow.po.noise.GaussianNoise(mean=0.0, sigma=25.5)"),
    "Mixup": (po.Mixup(alpha=0.2), "dtsflow.po.mixup.Mixup(alpha=0.2)"),
    "Normalize": (
        po.Normalize(preset="mnist"),
        "dtsflow.po.normalize.Normalize(preset='mnist', mean=None, std=None, "
        "dtype=<DType.FP32: 'FP32'>)",
    ),
    "Pad": (po.Pad(2), "dtsflow.po.pad.Pad(padding=2, fill=0, padding_mode='constant')"),
    "RandAugment": (
        po.RandAugment(),
        "dtsflow.po.augment.RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31, "
        "interpolation='nearest', fill=0)",
    ),
    "RandomAffine": (
        po.RandomAffine(20),
        "dtsflow.po.affine.RandomAffine(degrees=20.0, translate=None, scale=None, shear=None, "
        "interpolation='nearest', fill=0)",
    ),
    "RandomAutocontrast": (
        po.RandomAutocontrast(),
        "dtsflow.po.autocontrast.RandomAutocontrast(p=0.5)",
    ),
    "RandomCrop": (
        po.RandomCrop(8),
        "dtsflow.po.crop.RandomCrop(size=8, padding=0, fill=0, padding_mode='constant', "
        "compat='torchvision')",
    ),
    "RandomErasing": (
        po.RandomErasing(),
        "dtsflow.po.erasing.RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3))",
    ),
    "RandomGrayscale": (po.RandomGrayscale(), "dtsflow.po.grayscale.RandomGrayscale(p=0.1)"),
    "RandomHorizontalFlip": (
        po.RandomHorizontalFlip(),
        "dtsflow.po.flip.RandomHorizontalFlip(p=0.5)",
    ),
    "RandomResizedCrop": (
        po.RandomResizedCrop(8),
        "dtsflow.po.crop.RandomResizedCrop(size=8, scale=(0.08, 1.0), "
        "ratio=(0.75, 1.3333333333333333), antialias=True)",
    ),
    "RandomRotation": (
        po.RandomRotation(),
        "dtsflow.po.affine.RandomRotation(degrees=30.0, interpolation='nearest', fill=0, "
        "compat='torchvision')",
    ),
    "RandomScale": (
        po.RandomScale(0.8, 1.2),
        "dtsflow.po.scale.RandomScale(min_ratio=0.8, max_ratio=1.2, antialias=True)",
    ),
    "RandomVerticalFlip": (po.RandomVerticalFlip(), "dtsflow.po.flip.RandomVerticalFlip(p=0.5)"),
    "Resize": (po.Resize(8), "dtsflow.po.resize.Resize(size=8, fit='short', antialias=True)"),
    "TrivialAugmentWide": (
        po.TrivialAugmentWide(),
        "dtsflow.po.augment.TrivialAugmentWide(num_magnitude_bins=31, interpolation='nearest', "
        "fill=0)",
    ),
}


def written(made: Any) -> str:
    """What the facts of a chain have of an operation; the same wherever it stands."""
    if isinstance(made, po.Mixup | po.CutMix):
        main, facts = [], po.Chain(batch=(made,)).facts()
        own = facts["batch"]
    else:
        facts = po.Chain((made,), views={"other": (made,)}).facts()
        main = own = facts["po"]
        assert facts["views"] == [["other", own]]
    assert facts["po"] == main
    (fact,) = own
    assert isinstance(fact, str)
    return fact


@pytest.mark.parametrize("name", FACTS)
def test_an_operation_is_written_as_the_first_states_have_it(name: str) -> None:
    made, fact = FACTS[name]
    assert type(made).__name__ == name
    assert written(made) == fact


def test_every_operation_that_a_configuration_may_name_is_pinned() -> None:
    named = {name for name in po.__all__ if is_configurable(getattr(po, name))}
    assert set(FACTS) == named - {"Chain", "RecordChain", "Schedule"}


@pytest.mark.parametrize("name", FACTS)
def test_an_operation_that_moves_is_written_as_before(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, fact = FACTS[name]
    monkeypatch.setattr(type(made), "__module__", "dtsflow.po.new_room")
    assert written(made) == fact


@dataclass(frozen=True)
class Stretch:
    """An operation that is new."""

    by: int = 2


@dataclass(frozen=True)
class RandomCrop:
    """A plugin's class with a name that dtsflow has, too; on images and on records."""

    size: int
    words: int = field(default=0, repr=False)

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return fields

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:  # noqa: ARG002
        raise AssertionError("it is only written down")


def test_an_operation_that_comes_later_is_written_by_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stretch, "__module__", "dtsflow.po.rubber.sheets")
    assert fingerprint_fact(Stretch()) == "dtsflow.po.Stretch(by=2)"


@pytest.mark.parametrize("module", ["my_plugin", "my_plugin.crops", "dtsflow_crops.po.crop"])
def test_a_class_of_a_plugin_is_written_by_its_module(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomCrop, "__module__", module)
    assert fingerprint_fact(RandomCrop(3)) == f"{module}.RandomCrop(size=3)"


def test_the_facts_of_a_chain_of_records_name_plugins_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RandomCrop, "__module__", "my_plugin.crops")
    chain = po.RecordChain((RandomCrop(3),))
    assert chain.facts() == {"po": ["my_plugin.crops.RandomCrop(size=3)"]}
