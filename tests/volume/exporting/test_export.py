import errno
import io
import shutil
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from dtsflow.cli.main import main
from dtsflow.errors import BlockError, PackError, SetError, VolumeError
from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.exporting import export as export_module
from dtsflow.volume.exporting.export import Exported, export
from dtsflow.volume.format.extension import EXTENSION_OFFSET, About, Extension
from dtsflow.volume.format.file import read_header
from dtsflow.volume.format.header import BLOCK_BYTES, Kind
from dtsflow.volume.format.manifest import Entry, manifest_path
from dtsflow.volume.format.pixel_file import SMALL_SETS

PHOTOS = [jpeg(seed=seed) for seed in range(4)]
BLOCKS = [[(PHOTOS[0], 1), (PHOTOS[1], 0)], [], [(PHOTOS[2], 1), (PHOTOS[3], 1)]]
LABELS = [1, 0, 1, 1]


def png() -> bytes:
    stored = io.BytesIO()
    Image.new("L", (2, 3)).save(stored, "PNG")
    return stored.getvalue()


def write_manifest(volume: Path, names: Sequence[object], labels: Sequence[int]) -> None:
    """A manifest by hand: the names may be what no packer would write."""
    facts: dict[str, Any] = {"bytes": 0, "sha256": "", "crc32": 0, "width": 0, "height": 0}
    lines = [
        Entry(id=i, name=cast("str", name), label=label, **facts).line()
        for i, (name, label) in enumerate(zip(names, labels, strict=True))
    ]
    manifest_path(volume).write_text("".join(lines))


def add_index(volume: Path, class_names: Sequence[str]) -> None:
    """Put an extension index with these class names into a volume."""
    header = read_header(volume)
    with volume.open("r+b") as file:
        file.seek(BLOCK_BYTES)
        blocks = [file.read(BLOCK_BYTES) for _ in range(header.num_blocks)]
        about = About(
            class_names=tuple(class_names),
            header=header.to_bytes(),
            manifest_sha256="",
            packer="test",
            options={},
        )
        extension = Extension(
            header_crc=zlib.crc32(header.to_bytes()),
            about=about,
            block_crcs=np.array([zlib.crc32(block) for block in blocks], np.uint32),
            counts=np.array([int.from_bytes(block[8:12], "little") for block in blocks], np.uint32),
            widths=None,
            heights=None,
        )
        file.seek(EXTENSION_OFFSET)
        file.write(extension.to_bytes())


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def nothing_left(folder: Path) -> bool:
    return not [path for path in folder.iterdir() if ".dts" not in path.name]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "v.dts", BLOCKS)


def test_without_a_manifest_samples_are_called_by_class_and_number(
    volume: Path, tmp_path: Path
) -> None:
    calls: list[tuple[int, int]] = []
    written = export(volume, tmp_path / "out", progress=lambda *call: calls.append(call))
    assert written == Exported(4, 2, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "0/00000001.jpg": PHOTOS[1],
        "1/00000000.jpg": PHOTOS[0],
        "1/00000002.jpg": PHOTOS[2],
        "1/00000003.jpg": PHOTOS[3],
    }
    assert calls[-1] == (4, 4)


def test_numbered_classes_sort_as_their_labels_do(tmp_path: Path) -> None:
    volume = write_block_volume(tmp_path / "v.dts", [[(PHOTOS[0], label) for label in (2, 10)]])
    assert export(volume, tmp_path / "out").classes == 11
    folders = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert folders == [f"{label:02d}" for label in range(11)]
    assert list(tree(tmp_path / "out")) == ["02/00000000.jpg", "10/00000001.jpg"]


def test_names_and_classes_come_back(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat", "dog/small", "empty"])
    names = ["dog/small/a.JPEG", "cat/b.png", "dog/small/deep/ü b.jpg", "dog/small/.x"]
    write_manifest(volume, names, LABELS)
    assert export(tmp_path, tmp_path / "out").classes == 3
    assert tree(tmp_path / "out") == dict(sorted(zip(names, PHOTOS, strict=True)))
    assert (tmp_path / "out" / "empty").is_dir()


def test_a_name_outside_its_class_folder_is_put_below_it(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat", "dog"])
    write_manifest(volume, ["a.jpg", "cat2/b.jpg", "cat/c.jpg", "dog/d.jpg"], LABELS)
    export(volume, tmp_path / "out")
    assert sorted(tree(tmp_path / "out")) == [
        "cat/cat2/b.jpg",
        "dog/a.jpg",
        "dog/cat/c.jpg",
        "dog/d.jpg",
    ]


def test_every_volume_of_a_set_has_its_own_manifest(tmp_path: Path) -> None:
    paths = write_block_set(tmp_path, "s", [[[(PHOTOS[0], 0)]], [[(PHOTOS[1], 0), (png(), 0)]]])
    write_manifest(paths[1], ["0/x.jpg", "0/00000000.jpg"], [0, 0])
    export(tmp_path, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "0/00000000-0.jpg": PHOTOS[0],
        "0/00000000.jpg": png(),
        "0/x.jpg": PHOTOS[1],
    }


def test_names_that_are_alike_get_their_number(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat", "dog"])
    write_manifest(volume, ["dog/a.jpg", "cat/a.jpg", "a.jpg", "dog/a.jpg/b.jpg"], LABELS)
    export(volume, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "cat/a.jpg": PHOTOS[1],
        "dog/a-0.jpg": PHOTOS[0],
        "dog/a-2.jpg": PHOTOS[2],
        "dog/a.jpg/b.jpg": PHOTOS[3],
    }


@pytest.mark.parametrize("level", [1, 2, 3])
def test_what_was_encoded_anew_is_called_a_jpeg(tmp_path: Path, level: int) -> None:
    volume = write_block_volume(tmp_path / "v.dts", BLOCKS, level=level)
    write_manifest(volume, ["1/a.PNG", "0/b.JPEG", "1/a.jpg", "1/c"], LABELS)
    export(volume, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "0/b.JPEG": PHOTOS[1],
        "1/a-2.jpg": PHOTOS[2],
        "1/a.jpg": PHOTOS[0],
        "1/c.jpg": PHOTOS[3],
    }


SIGNATURES = [
    (b"RIFF\0\0\0\0WEBPVP8 ", ".webp"),
    (b"BM....", ".bmp"),
    (b"GIF89a", ".gif"),
    (b"II*\0..", ".tif"),
    (b"MM\0*..", ".tif"),
    (b"\xff\xd8\xff\xe0", ".jpg"),
    (b"RIFF\0\0\0\0WAVE", ".bin"),
    (b"", ".bin"),
]


def test_the_content_decides_the_suffix(tmp_path: Path) -> None:
    samples = [(data, 0) for data, _ in SIGNATURES] + [(png(), 0)]
    export(write_block_volume(tmp_path / "v.dts", [samples]), tmp_path / "out")
    found = [Path(name).suffix for name in sorted(tree(tmp_path / "out"))]
    assert found == [suffix for _, suffix in SIGNATURES] + [".png"]


@pytest.mark.parametrize(("kind", "shape"), [(Kind.MNIST, (28, 28)), (Kind.CIFAR10, (32, 32, 3))])
def test_pixels_become_png_in_named_classes(
    tmp_path: Path, kind: Kind, shape: tuple[int, ...]
) -> None:
    volume = write_small_set(tmp_path / "s.dts", kind, 600)
    raw = volume.read_bytes()
    assert export(volume, tmp_path / "out", workers=2) == Exported(600, 10, tmp_path / "out")
    files = {path.stem: path for path in (tmp_path / "out").rglob("*.png")}
    assert len(files) == 600
    size = int(np.prod(shape))
    for i in (0, 7, 511, 512, 599):
        place = files[f"{i:08d}"]
        label = raw[256 + i]
        assert place.parent.name == SMALL_SETS[kind].class_names[label]
        with Image.open(place) as image:
            pixels = np.asarray(image)
        assert pixels.shape == shape
        start = 256 + 600 + i * size
        assert pixels.tobytes() == raw[start : start + size]


HOSTILE = [
    "/etc/passwd",
    "../x.jpg",
    "1/../../x.jpg",
    "1//x.jpg",
    "1/",
    "",
    ".",
    "1/./x.jpg",
    "a\0b",
    "C:\\x.jpg",
    "C:x.jpg",
    "\\\\server\\share\\x",
    "\\x",
    "1\\..\\..\\x",
    "\ud800",
    "a/" * 100 + "x",
    "x" * 5000,
    None,
    7,
    ["x"],
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_is_refused(tmp_path: Path, name: object) -> None:
    volume = write_block_volume(tmp_path / "v.dts", [[(b"x", 1), (b"y", 1)]])
    write_manifest(volume, ["1/a.jpg", name], [1, 1])
    with pytest.raises(VolumeError, match=r"manifest\.jsonl line 2: the name .* cannot be written"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("name", ["/etc", "..", "a//b", "", "a\0b", "C:\\x", "\ud800"], ids=ascii)
def test_a_hostile_class_name_is_refused(tmp_path: Path, name: str) -> None:
    volume = write_block_volume(tmp_path / "v.dts", [[(b"x", 1)]])
    add_index(volume, ["cat", name])
    with pytest.raises(VolumeError, match=r"v\.dts: class 1 is called .* cannot be a folder"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


def test_two_classes_of_one_name_are_not_mixed(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat", "cat"])
    with pytest.raises(VolumeError, match="also the name of another class"):
        export(volume, tmp_path / "out")


def test_fewer_class_names_than_classes_are_refused(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat"])
    with pytest.raises(VolumeError, match="names 1 classes, the header counts 2"):
        export(volume, tmp_path / "out")


def test_volumes_of_one_set_have_the_same_class_names(tmp_path: Path) -> None:
    paths = write_block_set(tmp_path, "s", [[[(PHOTOS[0], 0)]], [[(PHOTOS[1], 0)]]])
    for path, name in zip(paths, ("cat", "dog"), strict=True):
        add_index(path, [name])
    with pytest.raises(VolumeError, match="different class names"):
        export(tmp_path, tmp_path / "out")


FOREIGN = [
    (["1/a", "0/b", "1/c"], [1, 0, 1], "it has 3 lines for 4 samples"),
    (["1/a", "0/b", "1/c", "1/d", "1/e"], [*LABELS, 1], "it has over 4 lines"),
    (["1/a", "1/b", "1/c", "1/d"], [1, 1, 1, 1], "line 2 is of sample 1 with label 1, .* label 0"),
]


@pytest.mark.parametrize(("names", "labels", "what"), FOREIGN)
def test_a_manifest_of_another_volume_is_refused(
    volume: Path, tmp_path: Path, names: list[str], labels: list[int], what: str
) -> None:
    write_manifest(volume, names, labels)
    with pytest.raises(VolumeError, match=rf"manifest\.jsonl is not of the volume .*{what}"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


def test_a_damaged_manifest_is_refused(volume: Path, tmp_path: Path) -> None:
    manifest_path(volume).write_text("{}\n")
    with pytest.raises(VolumeError, match="line 1 is no manifest entry"):
        export(volume, tmp_path / "out")
    manifest_path(volume).unlink()
    manifest_path(volume).mkdir()
    with pytest.raises(VolumeError, match="cannot be read"):
        export(volume, tmp_path / "out")


def test_a_damaged_block_is_named_and_nothing_is_written(volume: Path, tmp_path: Path) -> None:
    add_index(volume, ["cat", "dog"])
    damage(volume, 3 * BLOCK_BYTES + 4200, b"\x00\x01\x02")
    with pytest.raises(BlockError, match=r"block 2 of .*v\.dts is damaged.*dtsflow repair"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("kind", [None, Kind.MNIST])
def test_damage_is_found_without_an_index_too(tmp_path: Path, kind: Kind | None) -> None:
    path = tmp_path / "v.dts"
    write_small_set(path, kind, 3) if kind else write_block_volume(path, BLOCKS)
    damage(path, BLOCK_BYTES + 4200 if kind is None else 300, b"\x00\x01\x02")
    with pytest.raises(VolumeError, match=r"v\.dts is damaged: its samples have the CRC-32"):
        export(path, tmp_path / "out")
    assert nothing_left(tmp_path)


def test_a_folder_that_exists_is_left_alone(volume: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(PackError, match="out exists already"):
        export(volume, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_source_that_is_not_there_is_a_set_error(tmp_path: Path) -> None:
    with pytest.raises(SetError):
        export(tmp_path / "none.dts", tmp_path / "out")


def test_no_workers_are_refused(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="0 workers"):
        export(volume, tmp_path / "out", workers=0)


def test_space_is_checked_first(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = sum(map(len, PHOTOS))
    usage = shutil.disk_usage(tmp_path)._replace(free=wanted - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    with pytest.raises(PackError, match=f"{wanted - 1} bytes free, the export takes {wanted}"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


def failing_after(images: int, error: BaseException) -> Callable[[str, memoryview], None]:
    written = iter(range(images))
    write = export_module._write_new

    def write_some(path: str, data: memoryview) -> None:
        if next(written, None) is None:
            raise error
        write(path, data)

    return write_some


def test_a_full_disk_leaves_nothing(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(export_module, "_write_new", failing_after(2, full))
    with pytest.raises(PackError, match=r"out could not be written: .*No space left.*free space"):
        export(volume, tmp_path / "out")
    assert nothing_left(tmp_path)


def test_no_thread_writes_any_more_when_what_was_written_is_taken_away(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing: list[str] = []
    remove = shutil.rmtree

    def watch(folder: Path, *, ignore_errors: bool) -> None:
        writing.extend(one.name for one in threading.enumerate() if one.name.startswith("export"))
        remove(folder, ignore_errors=ignore_errors)

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", watch)
    with pytest.raises(KeyboardInterrupt):
        export(volume, tmp_path / "out", workers=2, progress=stop)
    assert not writing
    assert nothing_left(tmp_path)


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("mine")
    with pytest.raises(FileExistsError):
        export_module._write_new(str(place), memoryview(b"x"))
    assert place.read_text() == "mine"


def test_many_workers_write_what_one_does(tmp_path: Path) -> None:
    blocks = [[(jpeg(8, 8, seed=5 * b + i), i) for i in range(5)] for b in range(6)]
    volume = write_block_volume(tmp_path / "v.dts", blocks)
    write_manifest(volume, ["same.jpg"] * 30, [i for _ in range(6) for i in range(5)])
    for workers in (1, 7):
        export(volume, tmp_path / f"out{workers}", workers=workers)
    assert tree(tmp_path / "out1") == tree(tmp_path / "out7")
    assert len(tree(tmp_path / "out1")) == 30


def test_the_command_writes_class_folders(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(volume), str(tmp_path / "out")]) == 0
    assert f"4 images, 2 classes: {tmp_path / 'out'}" in capsys.readouterr().out
    assert len(tree(tmp_path / "out")) == 4
    assert main(["export", str(volume), str(tmp_path / "out"), "--workers", "1"]) == 1
    assert "out exists already" in capsys.readouterr().err


def test_the_reference_volume_gives_its_sources_back(reference: Path, tmp_path: Path) -> None:
    volume = reference / "imagenet_train_lv0.dts"
    written = export(volume, tmp_path / "out")
    assert (written.images, written.classes) == (184, 12)
    assert {path.suffix for path in (tmp_path / "out").rglob("*.*")} == {".jpg"}
