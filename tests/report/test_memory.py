import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from dtsflow.report import report
from dtsflow.report.report import peak_bytes, reset_peak, resident_bytes

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
PIECE = 64 << 20


@linux
def test_touched_memory_is_resident_until_it_is_let_go() -> None:
    before = resident_bytes()
    held = np.ones(PIECE, np.uint8)
    assert resident_bytes() - before > PIECE * 0.9
    del held
    assert resident_bytes() - before < PIECE * 0.5


@linux
def test_a_peak_that_was_reset_is_not_told_again() -> None:
    np.ones(PIECE, np.uint8)
    assert peak_bytes() >= resident_bytes()
    reset_peak()
    low = peak_bytes()
    held = np.ones(PIECE, np.uint8)
    del held
    assert PIECE * 0.8 < peak_bytes() - low < PIECE * 1.5


def test_off_linux_both_are_the_peak_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_STATUS", "_CLEAR"):
        monkeypatch.setattr(report, name, tmp_path / "none" / name)
    reset_peak()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", "freebsd")
    assert peak_bytes() == resident_bytes() == most * 1024
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_bytes() == most
