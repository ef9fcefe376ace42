import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from dtsflow import __version__

ROOT = Path(__file__).parents[1]
PACKAGES = sysconfig.get_path("purelib")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel without the compiled core, which takes a minute that this needs not."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", str(ROOT), "--no-deps", "-w", str(folder), "-q"]
    words += ["--config-settings=wheel.cmake=false", "--config-settings=wheel.py-api=py3"]
    if find_spec("scikit_build_core") and find_spec("nanobind"):
        words.append("--no-build-isolation")
    pip(*words)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed into."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", str(wheel), "--no-deps", "--no-index", "--target", str(folder), "-q")
    return folder


def pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def python(installed: Path, workdir: Path, *words: str) -> str:
    """What a Python says that has the wheel and not the checkout."""
    path = os.pathsep.join([str(installed), *(p for p in sys.path if "site-packages" in p)])
    done = subprocess.run(
        [sys.executable, "-S", *words],  # -S: an editable install would come first
        capture_output=True,
        text=True,
        check=False,
        cwd=workdir,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_the_package_its_configs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("conf/**/*.yaml")}
    assert {f"dtsflow/{name}" for name in shipped} <= names
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("dtsflow/**/*.py")}
    assert {name for name in modules if "/fuzz/" not in name} <= names
    assert "dtsflow/arena/normalize.cu" in names
    templates = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("dtsflow/**/*.in")}
    assert templates
    assert templates <= names
    assert {name.partition("/")[0] for name in names} == {
        "dtsflow",
        f"dtsflow-{__version__}.dist-info",
    }
    assert not [name for name in names if name.endswith((".cpp", ".hpp", ".h", "CMakeLists.txt"))]


def test_an_installed_dtsflow_finds_its_configs(installed: Path, workdir: Path) -> None:
    where = python(installed, workdir, "-c", "import dtsflow; print(dtsflow.__file__)")
    assert where.strip() == str(installed / "dtsflow" / "__init__.py")
    told = python(installed, workdir, "-m", "dtsflow")
    for experiment in (path.stem for path in ROOT.glob("conf/experiment/*.yaml")):
        assert f"  {experiment} " in told
    assert "Makes photo-like JPEGs" in told


def test_an_installed_dtsflow_plans_an_experiment(installed: Path, workdir: Path) -> None:
    words = ["+experiment=quickstart", "volume.images=3", "batch_size=2"]
    told = python(installed, workdir, "-m", "dtsflow", "plan", *words)
    assert "3 samples" in told
    assert "RandomResizedCrop" in told
