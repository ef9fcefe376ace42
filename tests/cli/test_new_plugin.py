import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.cli.new_plugin import KINDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_written_project_passes_its_own_tests(workdir: Path, kind: str) -> None:
    assert main(["new-plugin", "sea_urchin", "--kind", kind]) == 0
    project = workdir / "dtsflow-sea-urchin"
    # What installing would leave, without pip.
    about = project / "dtsflow_sea_urchin-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sea-urchin\nVersion: 0.1.0\n")
    point = "[dtsflow.plugins]\nsea_urchin = dtsflow_sea_urchin\n"
    assert 'sea_urchin = "dtsflow_sea_urchin"' in (project / "pyproject.toml").read_text()
    (about / "entry_points.txt").write_text(point)
    path = os.pathsep.join([str(project), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error"],
        cwd=project, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_written_project_is_whole_and_reads_as_our_code(workdir: Path, kind: str) -> None:
    assert main(["new-plugin", "urchin", "--kind", kind, "--to", "here"]) == 0
    texts = {path: path.read_text() for path in (workdir / "here").rglob("*") if path.is_file()}
    assert {"pyproject.toml", "README.md", "__init__.py"} <= {path.name for path in texts}
    assert not any(re.search(r"@[A-Z]+@", text) for text in texts.values())
    for words in (["check", "--select", "E,F,W,B,N,UP"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--config", f"{ROOT}/pyproject.toml", "here"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Urchin", "1st", "", "a-b", "../up", "class"])
def test_a_name_that_is_none_is_refused(
    workdir: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["new-plugin", name, "--kind", "loader"]) == 2
    assert "cannot name a plugin" in capsys.readouterr().err
    assert list(workdir.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workdir / "dtsflow-urchin").mkdir()
    assert main(["new-plugin", "urchin", "--kind", "loader"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert list((workdir / "dtsflow-urchin").iterdir()) == []
