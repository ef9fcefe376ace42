import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from dtsflow.cli import terminal as module
from dtsflow.cli.main import main
from dtsflow.cli.terminal import PartProgress, Progress
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind


@dataclass
class Terminal:
    """A pseudo-terminal that stands in for the one of the process."""

    master: int
    slave: TextIO

    def width(self, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    @contextmanager
    def of(self, columns: int) -> Iterator[None]:
        """Be standard output, of so many columns."""
        self.width(columns)
        with redirect_stdout(self.slave):
            yield

    def shown(self) -> str:
        """All that was written so far."""
        self.slave.flush()
        os.set_blocking(self.master, False)
        text = b""
        try:
            while piece := os.read(self.master, 1 << 16):
                text += piece
        except BlockingIOError:
            pass
        return text.decode()

    def states(self) -> list[str]:
        """What the line looked like after each time it was drawn."""
        drawn = self.shown().replace("\r\n", "\n").split("\r\x1b[2K")
        return [re.sub(r"\x1b\[[0-9;]*\w", "", state) for state in drawn if state]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream:
        monkeypatch.setattr(sys, "__stdout__", stream)  # whose size shutil asks for
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr(module, "_REFRESH_S", 0.0)
        yield Terminal(master, stream)
    os.close(master)


@pytest.mark.parametrize("columns", [200, 70, 69, 40, 12])
def test_the_line_fits_the_terminal_at_every_moment(terminal: Terminal, columns: int) -> None:
    with terminal.of(columns), Progress("epoch 12345", 1_000_000) as progress:
        for done in (1, 400_000, 999_999, 1_000_000):
            progress.show(done, images=123_456_789)
    states = terminal.states()
    assert len(states) == 5
    assert all(len(state.rstrip("\n")) < columns for state in states)
    assert [state.endswith("\n") for state in states] == [False] * 4 + [True]
    assert all(("█" in s or "░" in s) == (columns >= 70) for s in states)


def test_the_bar_grows_from_empty_to_full(terminal: Terminal) -> None:
    with terminal.of(100), Progress("x", 4) as progress:
        for done in range(5):
            progress.show(done, images=1)
    states = terminal.states()
    assert [state.count("█") for state in states] == [0, 8, 15, 22, 30, 30]
    assert [state.count("░") for state in states] == [30, 22, 15, 8, 0, 0]


def test_a_terminal_that_is_resized_is_believed(terminal: Terminal) -> None:
    with terminal.of(100), Progress("epoch 0", 9) as progress:
        for done, columns in ((1, 100), (2, 30)):
            terminal.width(columns)
            progress.show(done, images=1)
    wide, narrow, _ = terminal.states()
    assert "░" in wide
    assert len(narrow) < 30


def test_it_is_not_drawn_more_often_than_a_person_sees(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REFRESH_S", 1e9)
    with terminal.of(80), Progress("x", 1000) as progress:
        for done in range(1000):
            progress.show(done, images=1)
    assert len(terminal.states()) == 1


def test_a_run_on_a_terminal_shows_a_bar_and_then_its_summary(
    terminal: Terminal, workdir: Path
) -> None:
    path = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 10)
    with terminal.of(100):
        assert main(["po=mnist", f"volume.path={path}", "batch_size=5"]) == 0
    text = terminal.shown()
    assert "2/2" in text
    assert "█" * 30 in text
    assert text.index("images/s") < text.index("written to")


def test_off_a_terminal_it_is_one_plain_line_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress("epoch 3", 1) as progress:
        for done in (1, 2):
            progress.show(done, images=2, total=2)
            assert capsys.readouterr().out == ""
    told = capsys.readouterr().out
    assert re.fullmatch(r"epoch 3: 2/2  [\d,]+ images/s, \d+\.\d s\n", told)


def test_off_a_terminal_a_failed_part_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Progress("epoch 3", 1):
        raise ZeroDivisionError
    assert capsys.readouterr().out == ""


def test_each_part_of_a_job_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with PartProgress(unit="files") as progress:
        for part, total in (("check", 3), ("pack", 2)):
            for done in range(total + 1):
                progress.show(part, done, total)
    told = capsys.readouterr().out
    lines = r"check: 3/3  [\d,]+ files/s, \d+\.\d s\npack: 2/2  [\d,]+ files/s, \d+\.\d s\n"
    assert re.fullmatch(lines, told)


def test_a_part_that_goes_on_says_what_is_left(terminal: Terminal) -> None:
    with terminal.of(100), PartProgress() as progress:
        progress.show("pack", 0, 40)
        progress.show("pack", 10, 40)
    assert re.search(r"10/40  [\d,]+ images/s, \d+ s left", terminal.shown())


def test_a_quiet_job_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with PartProgress(quiet=True) as progress:
        progress.show("pack", 1, 1)
    assert capsys.readouterr().out == ""
