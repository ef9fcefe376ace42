"""Packing with restart markers: the same pixels, whatever else is asked."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtsflow.cli import inspect
from dtsflow.cli.pack import main
from dtsflow.errors import PackError
from dtsflow.native.core import load
from dtsflow.testing import jpeg
from dtsflow.volume.datasets.access import open_volumes
from dtsflow.volume.format.file import read_file
from dtsflow.volume.format.manifest import manifest_path, read_manifest
from dtsflow.volume.packing import encode
from dtsflow.volume.packing.options import Encoding, Layout, Level, Packing
from dtsflow.volume.packing.pack import Packed, estimate, pack
from dtsflow.volume.repairing.repair import repair
from dtsflow.volume.verifying.verify import verify

if load() is None:
    pytest.skip("the native core was not built", allow_module_level=True)

RST0 = b"\xff\xd0"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "Flowers"
    for number in range(12):
        path = folder / "abc"[number % 3] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(200 + number, 150, seed=number))
    Image.new("RGB", (90, 99)).save(folder / "a" / "plain.png")
    return folder


def packing(level: Level = 0, *, workers: int = 1, resume: bool = False) -> Packing:
    encoding = Encoding(level=level, restarts=True)
    return Packing(split="train", encoding=encoding, workers=workers, resume=resume)


def images(path: Path) -> dict[str, bytes]:
    names = [str(entry.name) for entry in read_manifest(manifest_path(path))]
    with open_volumes(path) as volumes:
        return dict(zip(names, (bytes(sample.data) for sample in volumes), strict=True))


def pixels(data: bytes) -> bytes:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).tobytes()


def packed_whole(packed: Packed) -> bytes:
    return packed.path.read_bytes()


@pytest.mark.parametrize("level", [0, 3])
def test_they_change_no_pixel(source: Path, tmp_path: Path, level: Level) -> None:
    marked = pack(source, tmp_path / "marked", packing(level))
    plain = pack(source, tmp_path / "plain", Packing(split="train", encoding=Encoding(level=level)))
    with_markers, without = images(marked.path), images(plain.path)
    assert with_markers.keys() == without.keys()
    for name, data in with_markers.items():
        assert pixels(data) == pixels(without[name])
        assert (RST0 in data) == (level > 0 or name.endswith(".jpg"))


def test_the_index_knows_the_sizes_and_the_manifest_the_sources(
    source: Path, tmp_path: Path
) -> None:
    marked = pack(source, tmp_path / "marked", packing())
    plain = pack(source, tmp_path / "plain", Packing(split="train"))
    entries, others = (
        {entry.name: entry for entry in read_manifest(manifest_path(one.path))}
        for one in (marked, plain)
    )
    for name, entry in entries.items():
        other = others[name]
        assert (entry.sha256, entry.bytes) == (other.sha256, other.bytes)
        assert (entry.width, entry.height) == (other.width, other.height)
        assert (entry.crc32 == other.crc32) == str(name).endswith(".png")
    extension = read_file(marked.path).extension
    assert extension is not None
    assert extension.about.options["restarts"] is True
    assert verify([marked.path]).is_clean


def test_the_workers_have_no_part_in_the_bytes(source: Path, tmp_path: Path) -> None:
    one = pack(source, tmp_path / "one", packing(workers=1))
    assert packed_whole(one) == packed_whole(pack(source, tmp_path / "four", packing(workers=4)))


def test_an_estimate_counts_what_is_good(source: Path, tmp_path: Path) -> None:
    (source / "a" / "broken.jpg").write_bytes(b"no image")
    found = estimate(source, tmp_path / "out", packing())
    assert found.images == 13
    assert len(found.rejects) == 1
    assert not found.expected.is_exact


def test_a_repair_from_sources_writes_them_again(source: Path, tmp_path: Path) -> None:
    marked = pack(source, tmp_path / "marked", packing())
    good = packed_whole(marked)
    with marked.path.open("r+b") as file:
        file.seek((1 << 24) + 8192)
        file.write(b"damage")
    assert repair(marked.path, sources=source).report.is_clean
    assert packed_whole(marked) == good


def test_a_volume_can_be_given_them(source: Path, tmp_path: Path) -> None:
    plain = pack(source, tmp_path / "plain", Packing(split="train"))
    shutil.rmtree(source)
    marked = pack(plain.path, tmp_path / "marked", packing())
    assert {pixels(data) for data in images(marked.path).values()} == {
        pixels(data) for data in images(plain.path).values()
    }


def test_the_command_has_the_option(source: Path, tmp_path: Path) -> None:
    words = [str(source), str(tmp_path / "out"), "--split", "train", "--restarts", "--quiet"]
    assert main(words) == 0
    assert (
        packed_whole(pack(source, tmp_path / "same", packing()))
        == (tmp_path / "out" / "flowers_train_lv0.dts").read_bytes()
    )


def test_an_inspection_tells_of_them(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for encoding in (Encoding(restarts=True), Encoding()):
        folder = tmp_path / str(encoding.restarts)
        path = pack(source, folder, Packing(split="train", encoding=encoding)).path
        assert inspect.main([str(path)]) == 0
        assert ("0, with restart markers" in capsys.readouterr().out) == encoding.restarts


def test_upstream_has_none(source: Path, tmp_path: Path) -> None:
    asked = Packing(split="train", encoding=Encoding(restarts=True), layout=Layout(upstream=True))
    with pytest.raises(PackError, match="upstream writes no restart markers"):
        pack(source, tmp_path, asked)


def test_without_the_native_core_they_are_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "load", lambda: None)
    with pytest.raises(PackError, match="restart markers are written by the native core"):
        pack(source, tmp_path / "out", packing())
    assert not (tmp_path / "out").exists()
