import os
import signal
import subprocess
import sys

import pytest

from dtsflow.ranks import mpi
from dtsflow.ranks.mpi import LocalPeers

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")

SLEEPS = "import time; print(flush=True); time.sleep(600)"


def test_the_others_are_ended_and_this_one_and_strangers_are_not() -> None:
    space = mpi.process_identity().partition(" ")[2]
    words = [sys.executable, "-c", SLEEPS]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as other,
        subprocess.Popen(words, stdout=subprocess.PIPE) as stranger,
    ):
        try:
            found = LocalPeers(
                [mpi.process_identity(), f"{other.pid} {space}", f"{stranger.pid} pid:[1]"]
            )
            found.kill()
            assert other.wait(60) == -signal.SIGKILL
            found.kill()  # it has ended
            assert stranger.poll() is None
        finally:
            other.kill()
            stranger.kill()


def test_a_process_that_has_ended_is_none() -> None:
    space = mpi.process_identity().partition(" ")[2]
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    LocalPeers([f"{ended.pid} {space}"]).kill()
