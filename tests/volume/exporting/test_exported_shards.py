import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.errors import BlockError, PackError, VolumeError
from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume, write_small_set
from dtsflow.volume import Packing, export, pack
from dtsflow.volume.exporting.export import Exported
from dtsflow.volume.format.header import BLOCK_BYTES, Kind
from dtsflow.volume.format.manifest import manifest_path
from dtsflow.volume.source.detect import list_source

WriteIndexed = Callable[..., Path]


def read(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as tar:
        found = []
        for member in tar:
            stored = tar.extractfile(member)
            assert stored is not None
            found.append((member.name, stored.read()))
    return found


def test_what_was_packed_comes_back_byte_for_byte(tmp_path: Path) -> None:
    for number in range(23):
        place = tmp_path / "tree" / ("10", "2", "a/b.c")[number % 3] / f"{number:02d}.JPEG"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jpeg(8 + number, 9, seed=number))
    (tmp_path / "tree" / "none").mkdir()
    first = pack(tmp_path / "tree", tmp_path / "v1", Packing(split="train", name="x"))
    written = export(first.path, tmp_path / "shards", to="webdataset", shard_samples=10, workers=3)
    assert written == Exported(23, 4, tmp_path / "shards", shards=3)
    again = pack(tmp_path / "shards", tmp_path / "v2", Packing(split="train", name="x"))
    assert again.path.read_bytes() == first.path.read_bytes()
    assert manifest_path(again.path).read_bytes() == manifest_path(first.path).read_bytes()


def test_a_shard_has_an_image_and_a_label_for_each_sample_in_order(tmp_path: Path) -> None:
    photos = [jpeg(8, 8, seed=number) for number in range(5)]
    blocks = [
        [[(photos[0], 1), (photos[1], 0)], []],
        [[(photos[2], 1)], [(photos[3], 0), (b"GIF8", 2)]],
    ]
    write_block_set(tmp_path, "s", blocks)
    export(tmp_path, tmp_path / "out", to="webdataset", shard_samples=3)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "shard-000000.tar",
        "shard-000001.tar",
    ]
    assert read(tmp_path / "out" / "shard-000000.tar") == [
        ("1/00000000.jpg", photos[0]),
        ("1/00000000.cls", b"1"),
        ("0/00000001.jpg", photos[1]),
        ("0/00000001.cls", b"0"),
        ("1/00000002.jpg", photos[2]),
        ("1/00000002.cls", b"1"),
    ]
    assert read(tmp_path / "out" / "shard-000001.tar")[2:] == [
        ("2/00000004.gif", b"GIF8"),
        ("2/00000004.cls", b"2"),
    ]


def test_keys_have_no_dots_and_no_two_are_alike(tmp_path: Path) -> None:
    names = ["a.b.jpg", "a_b.jpg", "a.b.png", "c", "d.JPEG", "e.dat"]
    (tmp_path / "tree" / "k.1").mkdir(parents=True)
    for number, name in enumerate(names):
        (tmp_path / "tree" / "k.1" / name).write_bytes(jpeg(8, 8, seed=number))
    packed = pack(tmp_path / "tree", tmp_path / "v", Packing(split="val"))
    export(packed.path, tmp_path / "out", to="webdataset")
    members = [name for name, _ in read(tmp_path / "out" / "shard-000000.tar")]
    keys = [name.rpartition(".")[0] for name in members[::2]]
    assert len(set(keys)) == len(names)
    assert all("." not in key.rpartition("/")[2] for key in keys)
    suffixes = sorted(name.rpartition(".")[2] for name in members[::2])
    assert suffixes == ["JPEG", "jpg", "jpg", "jpg", "jpg", "png"]
    assert len(list_source(tmp_path / "out").images) == len(names)


@pytest.mark.parametrize("kind", [Kind.MNIST, Kind.CIFAR10])
def test_pixels_become_png_with_class_names(tmp_path: Path, kind: Kind) -> None:
    volume = write_small_set(tmp_path / "s.dts", kind, 30)
    export(volume, tmp_path / "out", to="webdataset", shard_samples=16)
    listing = list_source(tmp_path / "out")
    by_number = sorted(listing.images, key=lambda image: image.name.rpartition("/")[2])
    assert [image.label for image in by_number] == list(volume.read_bytes()[256:286])
    assert len(listing.classes) == 10
    assert listing.images[0].stored.read().startswith(b"\x89PNG")


def test_the_same_shards_every_time(tmp_path: Path) -> None:
    blocks = [[(jpeg(8, 8, seed=5 * b + i), i) for i in range(5)] for b in range(4)]
    volume = write_block_volume(tmp_path / "v.dts", blocks)
    for workers in (1, 5):
        export(volume, tmp_path / f"o{workers}", to="webdataset", shard_samples=3, workers=workers)
    for path in (tmp_path / "o1").iterdir():
        assert path.read_bytes() == (tmp_path / "o5" / path.name).read_bytes()
    assert len(list((tmp_path / "o1").iterdir())) == 7


def test_damage_is_found_and_nothing_is_left(tmp_path: Path, write_indexed: WriteIndexed) -> None:
    blocks = [[(jpeg(8, 8, seed=2 * b + i), i) for i in range(2)] for b in range(3)]
    indexed = write_indexed(tmp_path / "i.dts", blocks)
    plain = write_block_volume(tmp_path / "p.dts", blocks)
    pixels = write_small_set(tmp_path / "m.dts", Kind.MNIST, 3)
    damage(indexed, 2 * BLOCK_BYTES + 4200, b"\x00\x01\x02")
    damage(plain, 2 * BLOCK_BYTES + 4200, b"\x00\x01\x02")
    damage(pixels, 300, b"\x00\x01\x02")
    with pytest.raises(BlockError, match=r"block 1 of .*i\.dts is damaged"):
        export(indexed, tmp_path / "out", to="webdataset")
    for volume in (plain, pixels):
        with pytest.raises(VolumeError, match=r"dts is damaged: its samples have the CRC-32"):
            export(volume, tmp_path / "out", to="webdataset")
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_a_class_that_is_no_line_and_a_shard_of_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a\nb").mkdir(parents=True)
    (tmp_path / "tree" / "a\nb" / "1.jpg").write_bytes(jpeg(8, 8))
    packed = pack(tmp_path / "tree", tmp_path / "v", Packing(split="val"))
    with pytest.raises(PackError, match=r"'a\\nb' cannot be a line of classnames\.txt"):
        export(packed.path, tmp_path / "out", to="webdataset")
    with pytest.raises(PackError, match="shards of 0 samples"):
        export(packed.path, tmp_path / "out", to="webdataset", shard_samples=0)


def test_the_command_writes_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume = write_block_volume(tmp_path / "v.dts", [[(jpeg(8, 8), 0), (jpeg(8, 8, seed=1), 1)]])
    words = [str(volume), str(tmp_path / "out"), "--to", "webdataset", "--shard-samples", "1"]
    assert main(["export", *words]) == 0
    assert f"2 images, 2 classes, 2 shards: {tmp_path / 'out'}" in capsys.readouterr().out
