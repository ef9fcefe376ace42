"""Packing a folder of photo-like JPEGs: level 0 beside `cp -r`, level 3 beside a loop.

Every side reads the same files from the page cache, writes to the same disk, and ends
with an fsync of all that it wrote.
"""

import argparse
import json
import sys

from data import DATA, photos
from harness import HERE, Comparison, Side, alternate, pin, report

LEVEL0, LEVEL3 = "dtsflow, level 0", "dtsflow, level 3"
COPY, LOOP = "cp -r and fsync", "Pillow loop, one process, level 3"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3, help="timed passes a round")
    asked = parser.parse_args()
    folder, _ = photos(asked.images)
    pin(asked.cores)

    def side(name: str, what: str, level: int) -> Side:
        job = {
            "what": what,
            "level": level,
            "data": str(folder),
            "target": str(DATA / "packed"),
            "passes": asked.passes,
        }
        script = str(HERE / "sides" / "pack_side.py")
        return Side(name, (sys.executable, script, json.dumps(job)))

    sides = [
        side(COPY, "copy", 0),
        side(LEVEL0, "pack", 0),
        side(LOOP, "loop", 3),
        side(LEVEL3, "pack", 3),
    ]
    measured = alternate(sides, asked.rounds)
    pairs = [
        Comparison("level 0 / cp -r and fsync", LEVEL0, COPY, 0.5),
        Comparison("level 3 / Pillow loop", LEVEL3, LOOP, 1.8),
    ]
    facts = {
        "images": f"{asked.images:,} JPEGs",
        "rounds": f"{asked.rounds}, each with 1 warm-up and {asked.passes} timed passes",
    }
    report("packing", sides, measured, pairs, facts)


if __name__ == "__main__":
    main()
