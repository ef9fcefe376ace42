"""However a loop ends, its process is gone within two seconds, with no thread left."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.testing import jpeg, write_block_volume

# The first handler to be registered runs last: it counts threads after the run's own.
START = """
import atexit, sys, threading, time
own = lambda: sorted(t.name for t in threading.enumerate() if t.name.startswith("dtsflow"))
atexit.register(lambda: print("left", own(), flush=True))
import dtsflow
from dtsflow.reader import block_io
from dtsflow.station.filler import Filler

def ready():
    assert len(own()) > 2, own()
    print("ready", flush=True)

def open_run():
    return dtsflow.open({"volume": {"path": sys.argv[1]}, "batch_size": 2, "workers": 4,
        "reader": {"mode": sys.argv[2]},
        "po": {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 16}]}})
"""

SLOW_DISK = """
def slow(*arguments, stop):
    while not stop():
        time.sleep(0.05)  # the time of a piece
    return False

block_io.read_into = slow
"""

HUNG_DISK = """
block_io.read_into = lambda *arguments, stop: threading.Event().wait()
"""

WHEN_WAITING = """
def tell():
    main = threading.main_thread().ident
    while True:
        frame, names = sys._current_frames()[main], []
        while frame:
            names.append((frame.f_code.co_filename.rsplit("/", 1)[-1], frame.f_code.co_name))
            frame = frame.f_back
        if ("double_buffer.py", "wait") in names:
            return ready()
        time.sleep(0.01)

threading.Thread(target=tell).start()
"""

BREAK = """
with open_run() as run:
    for batch in run.epoch(0):
        ready()
        break
"""

WORKER_FAILS = """
fill = Filler.__call__
def failing(filler, step, chunk):
    if (step, chunk) == (2, 0):  # one worker alone, for two would write into one line
        ready()
        raise ZeroDivisionError("in a worker")
    fill(filler, step, chunk)
Filler.__call__ = failing
with open_run() as run:
    for batch in run.epoch(0):
        pass
"""

CONSUMER_FAILS = """
with open_run() as run:
    for batch in run.epoch(0):
        ready()
        raise ZeroDivisionError("in the consumer")
"""

WAIT = """
with open_run() as run:
    for batch in run.epoch(0):
        pass
"""

WAIT_UNCLOSED = """
run = open_run()
batches = iter(run.epoch(0))
next(batches)
"""

EXIT_UNCLOSED = """
run = open_run()
batches = iter(run.epoch(0))
next(batches)
ready()
"""

ENDS = {
    "break": (BREAK, 0, ""),
    "exception in a worker": (WORKER_FAILS, 1, "ZeroDivisionError: in a worker"),
    "exception in the consumer": (CONSUMER_FAILS, 1, "ZeroDivisionError: in the consumer"),
    "Ctrl-C while it waits for a slow disk": (
        SLOW_DISK + WHEN_WAITING + WAIT,
        -signal.SIGINT,
        "KeyboardInterrupt",
    ),
    "Ctrl-C in a run that nobody closes": (
        SLOW_DISK + WHEN_WAITING + WAIT_UNCLOSED,
        -signal.SIGINT,
        "KeyboardInterrupt",
    ),
    "interpreter exit without close": (EXIT_UNCLOSED, 0, ""),
    "sys.exit without close": (EXIT_UNCLOSED + "sys.exit(3)", 3, ""),
}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    images = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(26)]
    return write_block_volume(tmp_path / "x.dts", [images[:9], images[9:21], images[21:]])


def start(script: str, volume: Path, mode: str = "resident") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START + script, str(volume), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("mode", ["resident", "streaming"])
@pytest.mark.parametrize("how", ENDS)
def test_a_process_ends_within_two_seconds_of(how: str, mode: str, volume: Path) -> None:
    script, status, told = ENDS[how]
    with start(script, volume, mode) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "ready\n"
            if "Ctrl-C" in how:
                process.send_signal(signal.SIGINT)
            assert process.wait(timeout=2) == status
        finally:
            process.kill()
        assert process.stdout.read().splitlines()[-1] == "left []"
        errors = process.stderr.read()
        assert told in errors
        assert ("Traceback" in errors) == bool(told)


def test_a_disk_that_hangs_does_not_keep_the_process(volume: Path) -> None:
    with start(HUNG_DISK + WHEN_WAITING + WAIT, volume) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=2) == -signal.SIGINT
        finally:
            process.kill()
        left = process.stdout.read()
    # What no program can end is named; nobody but the disk holds the process's threads.
    assert "dtsflow-io-0" in left
    assert "dtsflow-worker" not in left
