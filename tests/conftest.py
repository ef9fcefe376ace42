"""Fixtures that several packages share."""

import lzma
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A busy machine makes any single example slow; a hang is caught by the faulthandler.
hypothesis.settings.register_profile("dtsflow", deadline=None)
hypothesis.settings.load_profile("dtsflow")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the volumes that the upstream exporter wrote, and sources.json."""
    packed = Path(os.environ.get("DTSFLOW_REFERENCE", ROOT.parent / "shared" / "reference"))
    if not packed.is_dir():
        pytest.skip(f"no reference volumes at {packed} (set DTSFLOW_REFERENCE)")
    folder = tmp_path_factory.mktemp("reference")
    for archive in sorted(packed.glob("*.dts.xz")):
        with lzma.open(archive) as source, (folder / archive.stem).open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
    shutil.copy(packed / "sources.json", folder)
    return folder


@pytest.fixture
def workdir(tmp_path: Path) -> Iterator[Path]:
    """An empty current folder, so that `runs/` and `conf/` of this test are its own."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)
