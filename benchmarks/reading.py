"""Reading a volume of many blocks, nothing decoded, beside a bare loop of `preadv`.

Cold: the volume is out of the page cache. Warm: it is in it. The loop's four buffers
may stay in a processor's cache, the store's gigabyte cannot: so the loop is measured
into as much memory, too.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from data import DATA
from harness import HERE, Comparison, Side, alternate, pin, report

from dtsflow.testing import jpeg
from dtsflow.volume import Packing, pack

_SAMPLE = 110_000  # bytes: ImageNet's mean
_PER_BLOCK = 150
_STORE_BLOCKS = 64  # what the streaming store holds with the default window
LOOP = "bare 4-thread preadv loop"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=2, help="timed passes a round")
    asked = parser.parse_args()
    volume = _volume(asked.blocks)
    pin(asked.cores)

    def side(name: str, verify: str | None, *, cold: bool, buffers: int = 4) -> Side:
        job = {"data": str(volume), "verify": verify, "cold": cold, "buffers": buffers}
        script = str(HERE / "sides" / "reading_side.py")
        words = json.dumps({**job, "passes": asked.passes})
        return Side(name, (sys.executable, script, words))

    warm, large, cold = f"{LOOP}, warm", f"{LOOP}, warm, into 1 GiB", f"{LOOP}, cold"
    sides = [
        side(warm, None, cold=False),
        side(large, None, cold=False, buffers=_STORE_BLOCKS),
        side("streaming, verify none, warm", "none", cold=False),
        side("streaming, verify block, warm", "block", cold=False),
        side(cold, None, cold=True),
        side("streaming, verify block, cold", "block", cold=True),
    ]
    measured = alternate(sides, asked.rounds, unit="MiB")
    names = [one.name for one in sides]
    pairs = [
        Comparison("verify none / loop, warm", names[2], warm, 0.95),
        Comparison("verify block / loop, warm", names[3], warm, 0.6),
        Comparison("verify none / loop into 1 GiB, warm", names[2], large),
        Comparison("verify block / loop into 1 GiB, warm", names[3], large),
        Comparison("verify block / loop, cold", names[5], cold, 0.95),
    ]
    facts = {
        "volume": f"{asked.blocks} blocks of 16 MiB",
        "rounds": f"{asked.rounds}, each with 1 warm-up and {asked.passes} timed passes",
    }
    report("reading", sides, measured, pairs, facts, unit="MiB")


def _volume(blocks: int) -> Path:
    """A volume of noise that looks like JPEGs as far as packing looks."""
    target = DATA / f"noise-{blocks}_train_lv0.dts"
    if target.exists():
        return target
    folder = DATA / f"noise-{blocks}"
    print(f"making {blocks} blocks: {target}", flush=True)
    head = jpeg()
    rng = np.random.default_rng(0)
    for number in range(blocks * _PER_BLOCK):
        path = folder / f"{number % 10}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = rng.integers(0, 255, _SAMPLE - len(head), np.uint8).tobytes()
        path.write_bytes(head[:-2] + noise + head[-2:])
    pack(folder, DATA, Packing(split="train", name=folder.name))
    shutil.rmtree(folder)
    return target


if __name__ == "__main__":
    main()
