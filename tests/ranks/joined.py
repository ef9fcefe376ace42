"""What each process of the tests of ranks does: `python joined.py RANKS DEED`."""

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

from dtsflow.errors import StallError
from dtsflow.ranks import Auto, Env, Mpi
from dtsflow.ranks.collective import agree
from dtsflow.ranks.failure import ending_all
from dtsflow.ranks.group import Group, broadcast
from dtsflow.ranks.node_memory import node_memory

FAILING = 1  # the rank that does the deed
HANGING_S = 50.0  # longer than a test waits


def main(kind: str, deed: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    kinds: dict[str, type[Auto | Env | Mpi]] = {"auto": Auto, "env": Env, "mpi": Mpi}
    ranks = kinds[kind](timeout_s=40)
    group = ranks.join(Path("runs/it"))
    with ending_all(group):
        {"talk": talk, "differ": differ}.get(deed, fail)(group, deed)
    group.close()


def talk(group: Group, _deed: str) -> None:
    """Use everything, and say what came of it."""
    rank = group.rank
    texts = group.gather_texts(f"é{rank.index}" * rank.index)
    agree(group, {"library": "1", "data": "ab"})
    memory = node_memory(group, 3 << 20)
    memory[rank.local_index :: rank.local_size] = 1 + rank.index
    group.gather_texts("")  # all have written
    found = {
        "rank": [rank.index, rank.size, rank.node, rank.local_index, rank.local_size],
        "peers": list(group.peers),
        "texts": texts,
        "word": broadcast(group, f"of {rank.index}"),
        "memory": memory[: rank.local_size].tolist(),
        "sum": int(memory.sum()),
    }
    Path(f"found.{rank.index}").write_text(json.dumps(found), encoding="utf-8")
    group.gather_texts("")  # nobody lets go before all have looked


def differ(group: Group, _deed: str) -> None:
    """Have another seed on one rank."""
    agree(group, {"library": "1", "seed": "4" if group.rank.index == FAILING else "3"})


def fail(group: Group, deed: str) -> None:
    """Fail on one rank, while the others wait in something that hears nothing."""
    memory = node_memory(group, 1 << 20)
    memory[:] = 1
    group.gather_texts("")
    if group.rank.index == FAILING:
        if deed == "raise":
            raise ZeroDivisionError("it broke")
        if deed == "stall":
            raise StallError("The workers stalled.")
        os.kill(os.getpid(), getattr(signal, deed))
    time.sleep(HANGING_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
