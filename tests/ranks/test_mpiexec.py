import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.testing import jpeg, write_block_volume

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


@pytest.mark.mpi
@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec (the extra 'mpi-wheel')")
def test_ranks_single_under_a_real_launcher_of_two_is_refused(workdir: Path) -> None:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(), 0)]])
    words = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "dtsflow", "+experiment=imagenet_train"]
    done = subprocess.run(
        [*words, f"volume.path={path}", "tail=pad", "ranks=single"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "PMI_SIZE" in done.stderr
    assert "2" in done.stderr
    assert not Path("runs").exists()
