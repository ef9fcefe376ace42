import re
from pathlib import Path

import pytest

from dtsflow.config.compose import compose
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_set, write_small_set
from dtsflow.volume.format.header import Kind


def page_of(path: object, *words: str) -> tuple[str, str]:
    """The page, and the digest it should end in."""
    values = compose([f"volume.path={path}", "memory.limit=2000000000", *words]).values
    plan = plan_run(build(values), Rank(0, 1))
    return plan_text(plan), plan.digest()


@pytest.fixture
def photos(tmp_path: Path) -> str:
    write_block_set(tmp_path, "set", [[[(jpeg(seed=i), i)]] for i in range(6)])
    return str(tmp_path / "set-*.dts")


def test_a_person_reads_data_order_graph_and_memory(photos: str) -> None:
    words = ("+experiment=imagenet_train", "batch_size=4", "seed=9", "epochs=1200", "max_steps=70")
    page, digest = page_of(photos, *words, "workers=3", "reader.io_threads=2")
    for line in (
        "6 samples, 6 classes, 6 blocks",
        "1,200 epochs, 1 steps each, seed 9, 3 workers",
        "1 steps of 4 rows, tail drop",
        "shuffle blocks, 4 lanes of 1 rows, windows of up to 8 blocks",
        "ranks that can share it: 1, 2, 4; read amplification 1.50 when streaming",
        "ends after 70 steps",
        "resident, auto: 100,663,416 bytes of blocks, windows take ",
        "no index, so its blocks have no checksums",
        "resident, 2 IO threads, verify structure",
        "chunks of 1 rows, 2 zones",
        "-> labels INT32[4], images FP16[4x224x224x4] (zone)",
        "I_B_DATA",
    ):
        assert line in page, line
    assert page.endswith(f"digest {digest}\n")


def test_of_many_volumes_the_first_two_and_the_last_are_named(photos: str) -> None:
    page, _ = page_of(photos, "po=imagenet_val")
    shown = [line.strip() for line in page.splitlines() if ".dts" in line or "…" in line]
    names = ["set-00001-of-00006.dts", "set-00002-of-00006.dts", "…", "set-00006-of-00006.dts"]
    assert [Path(line).name for line in shown] == names


def test_the_memory_entries_add_up_and_stand_beside_what_is_allowed(photos: str) -> None:
    page, _ = page_of(photos, "po=imagenet_val")
    lines = page.splitlines()
    total = next(i for i, line in enumerate(lines) if line.startswith("  planned in all"))
    first = lines.index("memory") + 1
    sizes = [
        int(line.partition(" bytes")[0].split()[-1].replace(",", ""))
        for line in lines[first : total + 2]
    ]
    assert sum(sizes[:-2]) == sizes[-2]
    assert sizes[-1] == 2_000_000_000


def test_raw_pixels_are_not_decoded_and_lines_have_no_trailing_space(tmp_path: Path) -> None:
    page, _ = page_of(write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 10))
    assert re.search(r"^  decode +raw pixels ", page, re.MULTILINE)
    assert "10 samples, 10 classes, raw pixels" in page
    assert "plan of a run without a name" in page
    assert not [line for line in page.splitlines() if line != line.rstrip()]
