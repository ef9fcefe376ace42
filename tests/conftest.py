"""Fixtures that several packages share."""

import gc
import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from fake_cuda import FakeCuda
from shared_composition import shared

from dtsflow.arena import device
from dtsflow.config import compose
from dtsflow.errors import MissingPartError
from dtsflow.testing import BlockSamples, damage, write_block_volume
from dtsflow.volume.format.extension import EXTENSION_OFFSET, About, Extension
from dtsflow.volume.format.header import BLOCK_BYTES, HEADER_BYTES
from dtsflow.volume.format.manifest import Entry, manifest_digest, manifest_path

# A busy machine makes any single example slow; a hang is caught by the faulthandler.
hypothesis.settings.register_profile("dtsflow", deadline=None)
hypothesis.settings.load_profile("dtsflow")

# Hundreds of processes are started: what one of them compiles, the others load.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parents[1]

# Tests that hold processes to seconds, or start many: beside others they would fail.
ALONE = (
    "cli/test_main.py",
    "cli/test_multirun.py",
    "cli/test_pack_ranks.py",
    "cli/test_stopped_runs.py",
    "cli/test_verify_ranks.py",
    "consumer/test_train.py",
    "pipeline/test_lifetime.py",
    "pipeline/test_two_seconds.py",
    "ranks/",
    "reader/test_shared_resident.py",
    "volume/packing/test_resume.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs alone, after all that can run side by side."""
    for item in items:
        if item.path.is_relative_to(ROOT / "tests"):
            where = item.path.relative_to(ROOT / "tests").as_posix()
            if where.startswith(ALONE):
                item.add_marker("alone")


def pytest_collection_finish() -> None:
    """Leave what is here for good, all tests among it, out of each later collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _compose_once() -> Iterator[None]:
    """Let all tests share what is composed of the shipped configs: see there."""
    with pytest.MonkeyPatch.context() as patch:
        unchanging = [*compose._plugin_folders(), compose.shipped_conf()]
        patch.setattr(compose, "hydra_compose", shared(unchanging))
        yield


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the volumes that the upstream exporter wrote, and their sources."""
    packed = Path(os.environ.get("DTSFLOW_REFERENCE", ROOT.parent / "shared" / "reference"))
    if not packed.is_dir():
        pytest.skip(f"no reference volumes at {packed} (set DTSFLOW_REFERENCE)")
    folder = tmp_path_factory.mktemp("reference")
    for archive in sorted(packed.glob("*.dts.xz")):
        with lzma.open(archive) as source, (folder / archive.stem).open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
    for name in ("sources.json", "val_sources.tar"):
        shutil.copy(packed / name, folder)
    return folder


@pytest.fixture
def workdir(tmp_path: Path) -> Iterator[Path]:
    """An empty current folder, so that `runs/` and `conf/` of this test are its own."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


WriteIndexed = Callable[..., Path]


def _manifest(path: Path, blocks: Sequence[BlockSamples]) -> None:
    lines = []
    for number, (data, label) in enumerate(one for block in blocks for one in block):
        entry = Entry(
            id=number,
            name=f"class{label}/{number}.jpg",
            label=label,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            crc32=zlib.crc32(data),
            width=1,
            height=1,
        )
        lines.append(entry.line())
    manifest_path(path).write_text("".join(lines), encoding="ascii")


def _write_indexed(
    path: Path,
    blocks: Sequence[BlockSamples],
    *,
    level: int = 0,
    manifest: bool = True,
    copy: bool = True,
    part: tuple[int, int, int] | None = None,
) -> Path:
    """Write a volume with an index; `copy` puts the header into the index again."""
    write_block_volume(path, blocks, level=level, part=part)
    stored = path.read_bytes()
    if manifest:
        _manifest(path, blocks)
    largest = max((label for block in blocks for _, label in block), default=0)
    extension = Extension(
        header_crc=zlib.crc32(stored[:HEADER_BYTES]),
        about=About(
            class_names=tuple(f"class{label}" for label in range(max(3, 1 + largest))),
            header=stored[:HEADER_BYTES] if copy else b"",
            manifest_sha256=manifest_digest(manifest_path(path)) if manifest else "",
            packer="test",
            options={},
        ),
        block_crcs=np.array(
            [
                zlib.crc32(stored[start : start + BLOCK_BYTES])
                for start in range(BLOCK_BYTES, len(stored), BLOCK_BYTES)
            ],
            np.uint32,
        ),
        counts=np.array([len(block) for block in blocks], np.uint32),
        widths=None,
        heights=None,
    )
    damage(path, EXTENSION_OFFSET, extension.to_bytes())
    return path


@pytest.fixture(scope="session")
def write_indexed() -> WriteIndexed:
    """Write a volume with an extension index and a manifest, as the packer does."""
    return _write_indexed


LAUNCH_S = 40.0  # how long started processes may take
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
SHARED_MEMORY = Path("/dev/shm")
SETTLE_S = 10.0


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    """That of this process, without what a launcher may have left in it."""
    kept = {name: value for name, value in os.environ.items() if "SIZE" not in name}
    return {**kept, **more}


def _torchrun(
    size: int, words: Sequence[str], folder: Path, each: Sequence[Mapping[str, str]] = ()
) -> tuple[list[int], str]:
    said = folder / "said"
    where = {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    with said.open("wb") as file:
        started = [
            subprocess.Popen(
                [sys.executable, *words],
                env=_environ({"RANK": str(rank), **where, **(each[rank] if each else {})}),
                cwd=folder,
                stdout=file,
                stderr=file,
            )
            for rank in range(size)
        ]
        try:
            statuses = [one.wait(LAUNCH_S) for one in started]
        finally:
            for one in started:
                one.kill()
                one.wait()
    return statuses, said.read_text(encoding="utf-8")


def _left_since(before: set[Path]) -> set[Path]:
    """What is new in shared memory to stay; what other programs have goes again."""
    end = time.monotonic() + SETTLE_S
    while (left := _in_shared_memory() - before) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def _in_shared_memory() -> set[Path]:
    """What is there, but for joblib's, which the tests of sweeps keep longer."""
    found = set(SHARED_MEMORY.glob("*"))
    return {path for path in found if not path.name.startswith(("joblib", "sem.loky"))}


def _mpiexec(size: int, words: Sequence[str], folder: Path, **more: str) -> tuple[int, str]:
    assert MPIEXEC is not None
    before = _in_shared_memory()
    done = subprocess.run(
        [MPIEXEC, "-n", str(size), sys.executable, *words],
        env=_environ(more),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LAUNCH_S,
    )
    assert _left_since(before) == set()
    return done.returncode, done.stdout


@pytest.fixture(scope="session")
def torchrun() -> Callable[..., tuple[list[int], str]]:
    """Start Python as so many ranks, as torchrun would, in a folder.

    `each` are more variables of each rank. The statuses of all, and what they said.
    """
    return _torchrun


@pytest.fixture(scope="session")
def mpiexec() -> Callable[..., tuple[int, str]]:
    """Start Python as so many ranks with mpiexec, in a folder, with more variables.

    Its status, and what all said; nothing may be left in /dev/shm.
    """
    if MPIEXEC is None:
        pytest.skip("there is no mpiexec (the extra 'mpi-wheel')")
    return _mpiexec


@pytest.fixture(params=["fake", pytest.param("gpu", marks=pytest.mark.gpu)])
def has_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device to be found by arena=device."""
    if request.param == "fake":
        monkeypatch.setattr(device, "open_device", lambda *_: FakeCuda())
        return
    try:
        device.open_device(0)
    except MissingPartError as absent:
        pytest.skip(str(absent))
