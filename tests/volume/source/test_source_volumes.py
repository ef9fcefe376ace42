import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import HeaderError, PackError, SetError, VolumeError
from dtsflow.testing import (
    BlockSamples,
    damage,
    write_block_set,
    write_block_volume,
    write_small_set,
)
from dtsflow.volume.format.extension import EXTENSION_OFFSET, About, Extension
from dtsflow.volume.format.header import BLOCK_BYTES, Header, Kind
from dtsflow.volume.format.manifest import Entry, manifest_path
from dtsflow.volume.source.base import Listing
from dtsflow.volume.source.volumes import read_volumes

BLOCKS: list[BlockSamples] = [[(b"a" * 100, 1), (b"bb", 0)], [], [(b"ccc", 4)]]


def names_of(path: Path) -> list[str]:
    return [image.name for image in read_volumes(path)[0].images]


def content(listing: Listing) -> list[tuple[bytes, int]]:
    return [(image.stored.read(), image.label) for image in listing.images]


def write_manifest(volume: Path, entries: Sequence[tuple[str, int]], first: int = 0) -> Path:
    lines = [
        Entry(id=i, name=name, label=label, bytes=1, sha256="", crc32=0, width=1, height=1).line()
        for i, (name, label) in enumerate(entries, first)
    ]
    path = manifest_path(volume)
    path.write_text("".join(lines), encoding="ascii")
    return path


def name_classes(volume: Path, classes: tuple[str, ...], counts: Sequence[int]) -> None:
    header = Header.parse(volume.read_bytes()[:144], volume).to_bytes()
    about = About(class_names=classes, header=header, manifest_sha256="", packer="", options={})
    index = Extension(
        header_crc=zlib.crc32(header),
        about=about,
        block_crcs=np.zeros(len(counts), np.uint32),
        counts=np.array(counts, np.uint32),
        widths=None,
        heights=None,
    )
    damage(volume, EXTENSION_OFFSET, index.to_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "v.dts", BLOCKS)


def test_every_sample_is_an_image_in_volume_order(path: Path) -> None:
    listing, volumes = read_volumes(path)
    assert content(listing) == [sample for block in BLOCKS for sample in block]
    assert listing.classes == ("0", "1", "2", "3", "4")
    assert [image.name for image in listing.images] == ["1/00000000", "0/00000001", "4/00000002"]
    assert listing.images[2].stored.offset == 3 * BLOCK_BYTES + 4096
    assert volumes.num_samples == 3


def test_a_set_is_one_source_in_the_order_of_its_volumes(tmp_path: Path) -> None:
    write_block_set(tmp_path, "s", [[[(b"0", 1)], [(b"1", 0)]], [[]], [[(b"2", 2)]]])
    listing, _ = read_volumes(tmp_path)
    assert content(listing) == [(b"0", 1), (b"1", 0), (b"2", 2)]
    assert [image.name for image in listing.images] == ["1/00000000", "0/00000001", "2/00000002"]
    assert [Path(image.stored.path).name for image in listing.images] == [
        "s-00001-of-00003.dts",
        "s-00001-of-00003.dts",
        "s-00003-of-00003.dts",
    ]


def test_names_come_from_the_manifest(path: Path) -> None:
    write_manifest(path, [("n1/a.jpg", 1), ("n0/b c.jpg", 0), ("n4/\N{CAT FACE}", 4)])
    assert names_of(path) == ["n1/a.jpg", "n0/b c.jpg", "n4/\N{CAT FACE}"]


@pytest.mark.parametrize(
    ("entries", "first"),
    [
        ([("a", 1), ("b", 0)], 0),
        ([("a", 1), ("b", 0), ("c", 4), ("d", 4)], 0),
        ([("a", 1), ("b", 0), ("c", 3)], 0),
        ([("a", 1), ("b", 0), ("c", 4)], 1),
    ],
)
def test_a_manifest_of_another_volume_is_left_out(
    path: Path, entries: list[tuple[str, int]], first: int, caplog: pytest.LogCaptureFixture
) -> None:
    write_manifest(path, entries, first)
    assert names_of(path)[0] == "1/00000000"
    assert "v.dts.manifest.jsonl is not of its volume" in caplog.text


def test_names_are_numbers_unless_all_volumes_have_manifests(tmp_path: Path) -> None:
    first, second = write_block_set(tmp_path, "s", [[[(b"0", 0)]], [[(b"1", 0)]]])
    write_manifest(first, [("0/00000001", 0)])
    assert names_of(tmp_path) == ["0/00000000", "0/00000001"]
    write_manifest(second, [("0/x", 0)])
    assert names_of(tmp_path) == ["0/00000001", "0/x"]


def test_a_name_that_two_volumes_have_is_refused(tmp_path: Path) -> None:
    for volume in write_block_set(tmp_path, "s", [[[(b"0", 0)]], [[(b"1", 0)]]]):
        write_manifest(volume, [("0/x", 0)])
    with pytest.raises(PackError, match=r"00002\.dts block 0 sample 0 is called '0/x'.* second"):
        read_volumes(tmp_path)


@pytest.mark.parametrize("name", ["/a", "../a", "a/../../b", "a\0", ""])
def test_a_manifest_with_a_name_that_leads_out_is_refused(path: Path, name: str) -> None:
    write_manifest(path, [("n1/a", 1), (name, 0), ("n4/c", 4)])
    with pytest.raises(PackError, match=r"v\.dts block 0 sample 1 is called .* manifest"):
        read_volumes(path)


def test_a_damaged_manifest_is_named_with_its_line(path: Path) -> None:
    manifest = write_manifest(path, [("a", 1), ("b", 0), ("c", 4)])
    manifest.write_text(manifest.read_text().replace('"name":"b"', '"nam"'))
    with pytest.raises(VolumeError, match=r"v\.dts\.manifest\.jsonl line 2"):
        read_volumes(path)


def test_classes_come_from_the_extension_index(path: Path) -> None:
    names = ("ant", "bee", "cat", "dog", "elk", "fox")
    name_classes(path, names, [2, 0, 1])
    listing, _ = read_volumes(path)
    assert listing.classes == names
    assert [image.name for image in listing.images] == [
        "bee/00000000",
        "ant/00000001",
        "elk/00000002",
    ]


def test_fewer_class_names_than_labels_are_damage(path: Path) -> None:
    name_classes(path, ("ant", "bee"), [2, 0, 1])
    with pytest.raises(HeaderError, match=r"v\.dts: .* names 2 classes, the header counts 5"):
        read_volumes(path)


def test_volumes_of_one_set_have_one_list_of_classes(tmp_path: Path) -> None:
    first, second = write_block_set(tmp_path, "s", [[[(b"0", 0)]], [[(b"1", 0)]]])
    name_classes(first, ("ant",), [1])
    name_classes(second, ("bee",), [1])
    with pytest.raises(SetError, match="different class names"):
        read_volumes(tmp_path)


def test_pixels_are_no_images(tmp_path: Path) -> None:
    write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 3)
    with pytest.raises(PackError, match="holds MNIST pixels"):
        read_volumes(tmp_path)


def test_a_damaged_volume_is_refused_as_everywhere(path: Path) -> None:
    damage(path, 0, b"XDTS")
    with pytest.raises(HeaderError, match=r"v\.dts starts with b'XDTS'"):
        read_volumes(path)


def test_upstreams_samples_are_listed(reference: Path) -> None:
    listing, volumes = read_volumes(reference / "imagenet_val_lv3.dts")
    assert len(listing.images) == volumes.num_samples
    assert all(image.stored.read()[:2] == b"\xff\xd8" for image in listing.images)
    assert len({image.name for image in listing.images}) == volumes.num_samples
