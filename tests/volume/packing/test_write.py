from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.ranks.collective import Collective
from dtsflow.testing import jpeg
from dtsflow.volume.packing import write
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.pack import pack


@pytest.mark.parametrize("lost", ["v_train_lv0.dts", "*.manifest.jsonl", "*.rejects.jsonl"])
def test_a_file_that_the_first_rank_does_not_see_keeps_all_without_names(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "v" / "a", tmp_path / "out"
    source.mkdir(parents=True)
    (source / "0.jpg").write_bytes(jpeg())
    (source / "1.jpg").touch()

    @contextmanager
    def losing(folder: Path, _collective: Collective) -> Iterator[None]:
        yield
        for path in folder.glob(lost):
            path.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(write, "co_writing", losing)
        with pytest.raises(PackError, match="rank 0 does not see it"):
            pack(source.parent, out, Packing(split="train"))
    assert [path.name for path in out.iterdir()] == [".v_train_lv0.part"]
    packed = pack(source.parent, out, Packing(split="train", resume=True))
    assert (packed.images, packed.rejects, len(list(out.iterdir()))) == (1, 1, 3)
