import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.errors import RanksError
from dtsflow.ranks.file_rendezvous import LivenessLock, has_died

HOLDING = """
import sys
from pathlib import Path
from dtsflow.ranks.file_rendezvous import LivenessLock
presence = LivenessLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
presence.leave()
"""


def holding(path: Path) -> subprocess.Popen[str]:
    """A process that holds the sign until it reads a line, or is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_living_process_has_not_died_and_nobody_takes_its_sign(tmp_path: Path) -> None:
    path = tmp_path / "sign.1"
    with holding(path) as process:
        assert not has_died(path)
        with pytest.raises(RanksError, match="belongs to a living process"):
            LivenessLock(path)
        assert not has_died(path)
        process.kill()


def test_one_that_was_killed_has_died_and_its_sign_can_be_taken(tmp_path: Path) -> None:
    path = tmp_path / "sign.1"
    with holding(path) as process:
        process.kill()
        process.wait(10)
        assert has_died(path)
    with holding(path) as process:
        assert not has_died(path)
        process.kill()


def test_one_that_left_has_not_died(tmp_path: Path) -> None:
    path = tmp_path / "sign.1"
    with holding(path) as process:
        process.communicate("\n", timeout=10)
    assert not path.exists()
    assert not has_died(path)


def test_leaving_twice_is_leaving(tmp_path: Path) -> None:
    presence = LivenessLock(tmp_path / "sign.0")
    presence.leave()
    presence.leave()
    assert not list(tmp_path.iterdir())
