"""What users may import stands in `__init__` files with `__all__`, and only that."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dtsflow"

PUBLIC = {
    "dtsflow": "__version__ open volume",
    "dtsflow.arena": "Device Host",
    "dtsflow.consumer": "Count Digest Digits LinearFit Sheet Softmax Train",
    "dtsflow.decode": "Auto Parse Pillow",
    "dtsflow.memory": (
        "Budget DTensor Declared Form InputBuffer MemoryPlan PlanConfig Region Variant named_range"
    ),
    "dtsflow.pipeline": "Phase Pipeline",
    "dtsflow.po": (
        "CenterCrop Chain ColorJitter CutMix DoNothing FastRandomResizedCrop GaussianBlur "
        "GaussianNoise Mixup Normalize Pad RandAugment RandomAffine RandomAutocontrast RandomCrop "
        "RandomErasing RandomGrayscale RandomHorizontalFlip RandomResizedCrop RandomRotation "
        "RandomScale RandomVerticalFlip RecordChain Resize Schedule TrivialAugmentWide"
    ),
    "dtsflow.ranks": "Auto Env Group Mpi Rank Single",
    "dtsflow.reader": "Reader Subset",
    "dtsflow.station": "Station",
    "dtsflow.tensor": "DTensor DType Shape Tensor",
    "dtsflow.testing": (
        "BlockSamples check_consumer check_decoder check_image_loader check_loader "
        "check_operation check_parser check_record_operation damage jpeg record_batch "
        "write_block_set write_block_volume write_small_set"
    ),
    "dtsflow.volume": (
        "Choice Dts Encoding Layout Packing Raw SourceFormat Synthetic estimate export open pack "
        "repair scan verify write_photos"
    ),
}
WITH_A_FRAMEWORK = {"dtsflow.interop.torch"}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_package_offers_these_names_and_no_others(module: str) -> None:
    found = import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module].split())
    missing = object()
    assert all(getattr(found, name, missing) is not missing for name in found.__all__)


def test_no_other_package_has_a_public_face() -> None:
    faces = {
        ".".join(file.parent.relative_to(PACKAGE.parent).parts)
        for file in PACKAGE.rglob("__init__.py")
        if "__all__" in file.read_text()
    }
    assert faces == {*PUBLIC, *WITH_A_FRAMEWORK}


@pytest.mark.parametrize("module", ["dtsflow.memory", "dtsflow.tensor"])
def test_a_face_that_is_filled_late_lists_its_names_and_refuses_others(module: str) -> None:
    found = import_module(module)
    assert set(found.__all__) <= set(dir(found))
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
        _ = found.Nothing


def test_tensors_and_memory_may_each_be_imported_first() -> None:
    """Their packages need each other, and neither may have to be there before."""
    folders = ("memory", "tensor")
    files = [file for folder in folders for file in sorted((PACKAGE / folder).glob("[!_]*.py"))]
    code = """
import importlib, sys
for name in sys.argv[1:]:
    for known in [one for one in sys.modules if one.split(".")[0] == "dtsflow"]:
        del sys.modules[known]
    importlib.import_module(name)
"""
    names = [f"dtsflow.{file.parent.name}.{file.stem}" for file in files]
    command = [sys.executable, "-c", code, *names, *(f"dtsflow.{one}" for one in folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_map_of_the_package_has_every_file_once() -> None:
    shown: list[str] = []
    folder = ""
    for line in (PACKAGE / "README.md").read_text().splitlines():
        if line.startswith("**dtsflow/"):
            folder = line.strip("*").removeprefix("dtsflow/")
        elif line.startswith("| `"):
            shown.append(folder + line.split("`")[1])
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    assert sorted(shown) == sorted(str(file.relative_to(PACKAGE)) for file in files)
