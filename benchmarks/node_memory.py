"""Memory of one rank and of several on a node that keep a resident volume.

The proportional set size (PSS) counts a page by the number of processes that have it,
so the sum over ranks is what they take together. Ranks that share the volume exceed
one rank's by what each has of its own: interpreter, batches, scratch.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from data import DATA

import dtsflow
from dtsflow.testing import jpeg, write_block_volume

_SAMPLE_BYTES = 110_000  # ImageNet's mean
_PER_BLOCK = 150
_PER_CENT = 10  # what may come on top
_TIMEOUT_S = 300


def main() -> None:
    """Measure and report, or be one of the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024, help="of the volume")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rank-of", metavar="VOLUME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rank_of is not None:
        _rank(asked.rank_of)
        return
    volume = _volume(asked.mebibytes)
    one, several = _measured(volume, 1), _measured(volume, asked.ranks)
    _tell(volume.stat().st_size, one, several)


def _volume(mebibytes: int) -> Path:
    """A volume of about so many MiB, made once."""
    path = DATA / f"resident-{mebibytes}.dts"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        images = [jpeg(64, 64, seed=number) for number in range(16)]
        samples = [(image.ljust(_SAMPLE_BYTES, b"\0"), 0) for image in images]
        blocks = max(1, (mebibytes << 20) // (_PER_BLOCK * _SAMPLE_BYTES))
        block = [samples[number % len(samples)] for number in range(_PER_BLOCK)]
        part = path.with_suffix(".part")
        write_block_volume(part, [block] * blocks)
        part.rename(path)
    return path


def _measured(volume: Path, ranks: int) -> list[int]:
    """The PSS of each rank, in bytes, when all have read an epoch."""
    command = [sys.executable, str(Path(__file__).resolve()), "--rank-of", str(volume)]
    if ranks > 1:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        command = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(ranks), *command]
    with tempfile.TemporaryDirectory() as folder:  # for the run's own
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        )
    return [int(pss) for pss in json.loads(done.stdout.splitlines()[-1])]


def _rank(volume: str) -> None:
    words = ["po.operations[0].size=64", "batch_size=512", "epochs=1", "tail=pad", "workers=1"]
    name = f"name=node-memory-{Path(volume).stem}"
    source = f"volume.path={volume}"
    with dtsflow.open("+experiment=imagenet_train", source, name, "reader=resident", *words) as run:
        for _ in run:
            pass
        run.group.gather_texts("")  # all have, and none lets go before all were measured
        told = run.group.gather_texts(str(_pss()))
        if run.plan.rank.index == 0:
            print(json.dumps(told))


def _pss() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/smaps_rollup has no Pss")


def _tell(volume: int, one: list[int], several: list[int]) -> None:
    own = one[0] - volume
    excess, others = sum(several) - one[0], (len(several) - 1) * own
    allowed = others * (100 + _PER_CENT) // 100
    print(f"volume                       {volume / 2**20:9.1f} MiB")
    print(f"1 rank                       {one[0] / 2**20:9.1f} MiB, without the volume", end=" ")
    print(f"{own / 2**20:.1f}")
    print(f"{len(several)} ranks together            {sum(several) / 2**20:9.1f} MiB")
    print(f"more than 1 rank             {excess / 2**20:9.1f} MiB")
    print(f"others' own and {_PER_CENT} %         {allowed / 2**20:9.1f} MiB")
    print("within" if excess <= allowed else "NOT within")


if __name__ == "__main__":
    main()
