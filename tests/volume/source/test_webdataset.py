import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.testing import damage, jpeg
from dtsflow.volume import Choice, Packing, SourceFormat, pack
from dtsflow.volume.datasets.access import open_volumes
from dtsflow.volume.format.manifest import rejects_path
from dtsflow.volume.source.base import NO_CLASS, Listing
from dtsflow.volume.source.detect import list_source

Members = Iterable[tuple[str, bytes]]


def shard(path: Path, members: Members) -> Path:
    """A tar with the header fields that the webdataset library writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uname, info.gname = len(data), 0o444, "big", "data"
            tar.addfile(info, io.BytesIO(data))
    return path


def listed(path: Path, **fields: str) -> Listing:
    return list_source(path, SourceFormat(kind="webdataset", **fields))  # type: ignore[arg-type]  # the tests' own words


def labels_of(listing: Listing) -> list[tuple[str, int]]:
    return [(image.name, image.label) for image in listing.images]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s-000000.tar"


def test_members_of_one_key_are_a_sample_wherever_they_lie(path: Path) -> None:
    members = [("b.cls", b"1"), ("a.jpg", b"A"), ("b.JPG", b"B"), ("./a.cls", b" 0\n")]
    listing = listed(shard(path, members))
    assert labels_of(listing) == [("a.jpg", 0), ("b.JPG", 1)]
    assert [image.stored.read() for image in listing.images] == [b"A", b"B"]
    assert listing.classes == ("0", "1")
    assert listing.rejects == ()
    assert listing.has_label_fields


def test_a_label_may_be_a_field_of_the_json_or_another_member(path: Path) -> None:
    members = [("a.jpg", b"A"), ("a.json", b'{"n": 2, "t": "cat"}'), ("a.txt", b"dog")]
    shard(path, members)
    assert labels_of(listed(path, label_field="n")) == [("a.jpg", 2)]
    assert listed(path, label_field="t").classes == ("cat",)
    assert listed(path, label_field="txt").classes == ("dog",)


def test_without_labels_the_folders_of_keys_are_the_classes(path: Path) -> None:
    members = [("t/dog/1.jpg", b"1"), ("t/cat/1.jpg", b"2"), ("t/cat/1.json", b"{}")]
    listing = listed(shard(path, members))
    assert listing.classes == ("cat", "dog")
    assert labels_of(listing) == [("t/cat/1.jpg", 0), ("t/dog/1.jpg", 1)]
    assert not listing.has_label_fields


@pytest.mark.parametrize(
    ("json_text", "why"),
    [
        (b"", "is empty"),
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[1]", "no number or text as 'n'"),
        (b'{"n": 1.5}', "no number or text as 'n'"),
        (b'{"n": true}', "no number or text as 'n'"),
        (b"\xff", "no UTF-8"),
        (b" " * (1 << 20) + b" ", "1048577 bytes"),
    ],
)
def test_a_json_without_the_label_says_why(path: Path, json_text: bytes, why: str) -> None:
    shard(path, [("a.jpg", b"A"), ("a.json", json_text)])
    (image,) = listed(path, label_field="n").images
    assert image.label == NO_CLASS
    assert why in image.why_no_class
    assert "key a in s-000000.tar" in image.why_no_class


def test_missing_halves_and_second_members_name_the_shard_and_the_key(path: Path) -> None:
    members = [
        ("whole.jpg", b"1"),
        ("whole.cls", b"0"),
        ("whole.jpg", b"2"),
        ("whole.cls", b"1"),
        ("nolabel.jpg", b"3"),
        ("noimage.cls", b"1"),
        ("two.jpg", b"4"),
        ("two.seg.png", b"5"),
        ("two.cls", b"0"),
        ("README", b"6"),
        ("../out.jpg", b"7"),
        (".hidden.jpg", b"8"),
    ]
    listing = listed(shard(path, members))
    assert labels_of(listing) == [("nolabel.jpg", NO_CLASS), ("whole.jpg", 0)]
    assert listing.images[1].stored.read() == b"1"
    assert listing.images[0].why_no_class == "has no label: no .cls (key nolabel in s-000000.tar)"
    told = {(one.name, one.reason) for one in listing.rejects}
    assert {one.name for one in listing.rejects} == {
        *("../out.jpg", "README", "noimage", "two", "whole.cls", "whole.jpg"),
    }
    assert ("whole.jpg", "a second .jpg of the key whole (in s-000000.tar)") in told
    assert ("noimage", "a sample with no image: it has .cls (in s-000000.tar)") in told
    assert any(name == "two" and "2 images" in reason for name, reason in told)
    chosen = listed(path, image_field="seg.png")
    assert labels_of(chosen) == [("two.seg.png", 0)]


def test_links_and_folders_make_no_sample(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name, kind in (("f.x", tarfile.DIRTYPE), ("a.jpg", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "b.jpg"
            tar.addfile(info)
    (reject,) = listed(path).rejects
    assert (reject.name, "links in a tar" in reject.reason) == ("a.jpg", True)


def test_keys_may_repeat_from_shard_to_shard(tmp_path: Path) -> None:
    for number in range(2):
        members = [("0.jpg", b"x"), ("0.cls", b"%d" % number)]
        shard(tmp_path / f"s-{number}.tar", members)
    assert labels_of(list_source(tmp_path)) == [("s-0/0.jpg", 0), ("s-1/0.jpg", 1)]
    shard(tmp_path / "a" / "s.tar", [("0.jpg", b"x"), ("0.cls", b"0")])
    shard(tmp_path / "b" / "s.tar", [("0.jpg", b"y"), ("0.cls", b"0")])
    listing = list_source(tmp_path / "{a,b}" / "s.tar")
    assert [image.name for image in listing.images] == ["000000/0.jpg", "000001/0.jpg"]


def test_classnames_beside_the_shards_name_the_numbers(tmp_path: Path, path: Path) -> None:
    shard(path, [("a.jpg", b"A"), ("a.cls", b"1")])
    (tmp_path / "classnames.txt").write_text("1\n10\n2\n")  # the number means the line
    listing = list_source(tmp_path)
    assert (listing.classes, labels_of(listing)) == (("1", "10", "2"), [("a.jpg", 1)])
    (tmp_path / "classnames.txt").write_text("cat\n")
    with pytest.raises(PackError, match=r"classnames\.txt names 1 classes, .* a class 1\."):
        list_source(tmp_path)
    shard(path, [("a.jpg", b"A"), ("a.cls", b"cat")])
    assert labels_of(list_source(tmp_path)) == [("a.jpg", 0)]
    shard(path, [("a.jpg", b"A"), ("a.cls", b"dog")])
    with pytest.raises(PackError, match=r"class 'dog', which is not in .*classnames\.txt"):
        list_source(tmp_path)


def test_a_tar_is_a_shard_by_its_label_members_or_if_asked_for(tmp_path: Path, path: Path) -> None:
    shard(path, [("c/a.jpg", b"A"), ("c/a.json", b'{"n": 7}')])
    assert list_source(path).classes == ("c",)
    assert len(list_source(path).images) == 2  # an ordinary tar: each file counts
    assert len(list_source(path, SourceFormat("webdataset")).images) == 1
    assert len(list_source(path, SourceFormat(label_field="n")).classes) == 8
    shard(path, [("c/a.jpg", b"A"), ("c/a.cls", b"7")])
    assert len(list_source(path).images) == 1
    assert len(list_source(path, SourceFormat("images")).images) == 2
    with pytest.raises(PackError, match=r"several\.tar names no \.tar file"):
        list_source(tmp_path / "x*several.tar")


@pytest.mark.parametrize("kept", [100, 512 + 100, 2000, 3 * 1024])
def test_a_shard_that_is_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    members = [("a.jpg", b"A" * 700), ("a.cls", b"1"), ("b.jpg", b"B")]
    for number in range(2):
        shard(tmp_path / f"s-{number}.tar", members)
    whole = (tmp_path / "s-1.tar").read_bytes()
    (tmp_path / "s-1.tar").write_bytes(whole[:kept])
    with pytest.raises(PackError, match=r"s-1\.tar"):
        list_source(tmp_path)


def test_a_damaged_or_compressed_shard_is_named(path: Path) -> None:
    shard(path, [("a.jpg", b"A" * 700), ("a.cls", b"1")])
    damage(path, 3 * 512 + 150, b"\x01\x02\x03")
    with pytest.raises(PackError, match=r"s-000000\.tar.* is damaged: the header at byte 1536"):
        listed(path)
    path.write_bytes(b"\x1f\x8b" + path.read_bytes())
    with pytest.raises(PackError, match="is compressed"):
        listed(path)
    path.write_bytes(b"<html>no such file</html>" * 100)
    with pytest.raises(PackError, match=r"s-000000\.tar is no tar"):
        listed(path)


def test_packed_shards_are_the_folder_they_came_from_and_nothing_is_lost(tmp_path: Path) -> None:
    classes = ("cat", "dog")
    files = {f"{classes[n % 2]}/{n:02d}.jpg": jpeg(12 + n, 10, seed=n) for n in range(11)}
    for name, data in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(data)
    for number in range(3):
        members = []
        for index, (name, data) in enumerate(files.items()):
            if index % 3 == number:
                label = classes.index(name.partition("/")[0])
                about = json.dumps({"label": label}).encode()
                key = f"{index:06d}"
                members += [(f"{key}.cls", b"%d" % label), (f"{key}.json", about)]
                members.append((f"{key}.jpg", data))
        members += [(f"lost{number}.jpg", jpeg(8, 8)), (f"void{number}.cls", b"0")]
        members += [(f"bad{number}.jpg", b"no image"), (f"bad{number}.cls", b"1")]
        shard(tmp_path / "shards" / f"s-{number}.tar", members)
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\n")
    plain = pack(tmp_path / "tree", tmp_path / "a", Packing(split="train"))
    packing = Packing(split="train", choice=Choice(classes=names))
    packed = pack(tmp_path / "shards", tmp_path / "b", packing)
    assert contents(packed.path) == contents(plain.path)
    assert (packed.images, packed.rejects) == (11, 9)
    told = rejects_path(packed.path).read_text()
    assert "key lost1 in s-1.tar" in told
    assert "void2" in told


def contents(path: Path) -> list[tuple[bytes, int, str]]:
    with open_volumes(path) as opened:
        return sorted((bytes(one.data), one.label, one.class_name) for one in opened)
