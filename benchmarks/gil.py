"""How long dtsflow holds the GIL for one JPEG sample, and what a second worker gains.

Held time is estimated in two ways, each with one worker on a warm run.

Asleep: beside the run, a thread spins in pure Python. It never sleeps on its own: it is
asleep only while it waits for the GIL, that is, while a thread of dtsflow (a worker or
the consumer) has it. Linux tells how long the spinner ran and how long it was ready to
run (`/proc/thread-self/schedstat`); the rest of the elapsed time it was asleep:

    held per sample = (elapsed - running - ready) / samples

A hold that ends before the spinner has fallen asleep, some microseconds, is missed, and
a thread that loses its CPU while it holds the GIL counts until it has it back: run this
on an idle machine.

Outside the core: the CPU time of the whole process, less that inside the native core's
`fill_chunk`, `probe` and `run_chunk`, which work without the GIL. An upper bound, since
Python and NumPy release the GIL elsewhere too, and one that other processes hardly
disturb. The reference path has no such core, so there is no figure for it.

Two workers: the side with one worker and the side with two take turns on the same two
cores, as in the other benchmarks.
"""

import argparse
import importlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data import photos
from harness import Comparison, Side, alternate, pin, report, script_side, spread
from imagenet import operations

import dtsflow

CORES = 2
BATCH = 256
SWITCH_S = 1e-3  # shorter than Python's 5 ms, so that the spinner delays the run less
RELEASING = ("fill_chunk", "probe", "run_chunk")
WANTED_US, WANTED_GAIN = 10, 1.9


@dataclass
class Spinner:
    """A thread of pure Python that runs until `stop`, which tells how long it slept."""

    stopping: bool = False
    slept: float = 0.0

    def start(self) -> None:
        """Start, and wait until it spins."""
        spinning = threading.Event()
        self._thread = threading.Thread(target=self._spin, args=(spinning,))
        self._thread.start()
        spinning.wait()

    def stop(self) -> float:
        """End it; seconds that it was asleep."""
        self.stopping = True
        self._thread.join()
        return self.slept

    def _spin(self, spinning: threading.Event) -> None:
        spinning.set()
        began, awake = time.perf_counter(), _awake()
        while not self.stopping:
            pass
        self.slept = time.perf_counter() - began - (_awake() - awake)


def _awake() -> float:
    """Seconds that this thread ran or was ready to run."""
    text = Path("/proc/thread-self/schedstat").read_text(encoding="ascii")
    return sum(int(word) for word in text.split()[:2]) * 1e-9


def watch_core(seconds: list[float]) -> None:
    """Let each call into the core, if there is one, append its CPU time."""
    try:
        core = importlib.import_module("dtsflow.native._core")
    except ImportError:
        return
    for name in RELEASING:
        setattr(core, name, _noting(getattr(core, name), seconds))


def _noting(call: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    def noting(*words: Any, **named: Any) -> Any:
        began = time.thread_time()
        result = call(*words, **named)
        seconds.append(time.thread_time() - began)
        return result

    return noting


def held_times(volume: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Microseconds a sample, asleep and, where the core runs, of CPU outside it."""
    config = {
        "experiment": "image_folder",
        "volume": {"path": str(volume)},
        "po": {"operations": operations(antialias=True)},
        "batch_size": BATCH,
        "workers": 1,
    }
    asleep, outside, inside = [], [], []
    watch_core(inside)
    with dtsflow.open(config) as run:

        def epoch(number: int) -> int:
            return sum(int(batch.valid.sum()) for batch in run.epoch(number))

        epoch(0)  # warm
        for number in range(1, rounds + 1):
            spinner = Spinner()
            spinner.start()
            samples = epoch(number)
            asleep.append(spinner.stop() / samples * 1e6)
            inside.clear()
            began = time.process_time()
            epoch(number)
            if inside:
                outside.append((time.process_time() - began - sum(inside)) / samples * 1e6)
            print(f"held, round {number}/{rounds}: {asleep[-1]:.1f} µs asleep", flush=True)
    return asleep, outside


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3, help="timed passes a round")
    asked = parser.parse_args()
    _, volume = photos(asked.images)
    pin(CORES)
    sys.setswitchinterval(SWITCH_S)
    asleep, outside = held_times(volume, asked.rounds)
    sides = [_side(volume, workers, asked.passes) for workers in (1, 2)]
    measured = alternate(sides, asked.rounds)
    one, two = (side.name for side in sides)
    facts = {
        f"GIL held a sample, wanted ≤ {WANTED_US} µs": f"{spread(asleep, 1)} µs, asleep",
        "CPU outside the core a sample": f"{spread(outside, 1)} µs" if outside else "no core ran",
    }
    gain = Comparison("2 workers / 1 worker", two, one, WANTED_GAIN)
    report("gil", sides, measured, [gain], facts)


def _side(volume: Path, workers: int, passes: int) -> Side:
    job = {
        "experiment": "image_folder",
        "data": str(volume),
        "operations": operations(antialias=True),
        "overrides": [],
        "batch": BATCH,
        "workers": workers,
        "passes": passes,
    }
    return script_side(f"dtsflow, workers {workers}", "dtsflow", job)


if __name__ == "__main__":
    main()
