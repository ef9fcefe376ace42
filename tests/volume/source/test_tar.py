import gzip
import io
import random
import tarfile
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS
from dtsflow.volume.source.folder import read_tree
from dtsflow.volume.source.tar import read_tar

Members = dict[str, bytes]  # a name that ends with a slash is a folder


def packed(members: Members, *, kind: int = tarfile.GNU_FORMAT) -> bytes:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w", format=kind) as tar:
        for name, data in members.items():
            add(tar, name, data)
    return stored.getvalue()


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(name.rstrip("/") if len(name) > 1 else name)
    info.size = len(data)
    info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.tar"


def names_of(path: Path) -> list[tuple[str, int]]:
    return [(image.name, image.label) for image in read_tar(path).images]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_is_read_from_its_place_in_the_tar(path: Path, kind: int) -> None:
    long = "n1/" + "x" * 90 + ".jpg"
    path.write_bytes(packed({"n0/a.jpg": b"first", long: b"second" * 999, "n1/e": b""}, kind=kind))
    listing = read_tar(path)
    assert listing.classes == ("n0", "n1")
    assert {image.name: image.stored.read() for image in listing.images} == {
        "n0/a.jpg": b"first",
        "n1/e": b"",
        long: b"second" * 999,
    }
    assert listing.rejects == ()


@pytest.mark.parametrize("name", ["n0/a b.jpg", "n0/\N{CAT FACE}.jpg", f"n0/{'y' * 255}"])
@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_any_file_name_is_a_name(path: Path, name: str, kind: int) -> None:
    path.write_bytes(packed({name: b"1"}, kind=kind))
    assert names_of(path) == [(name, 0)]


def test_a_name_that_is_no_utf8_is_kept(path: Path) -> None:
    path.write_bytes(packed({"n0/a\udcff.jpg": b"1"}))
    assert names_of(path) == [("n0/a\udcff.jpg", 0)]


@pytest.mark.parametrize("root", ["", "./", "train/", "./data/train/"])
def test_a_tar_lists_as_the_folder_it_was_made_of(path: Path, tmp_path: Path, root: str) -> None:
    files = {"b/2.jpg": b"2", "a/x/1.jpg": b"1", "a/y/.3": b"3", "c/z.txt": b"", "c/.d/4": b"4"}
    tree = tmp_path / "tree"
    for name, data in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    (tree / "empty").mkdir()
    members = {**files, "empty/": b"", "a/y/": b""}
    path.write_bytes(packed({f"{root}{name}": data for name, data in members.items()}))
    from_tar, from_tree = read_tar(path), read_tree(tree)
    assert from_tar.classes == from_tree.classes
    assert [(image.name, image.label, image.stored.read()) for image in from_tar.images] == [
        (image.name, image.label, image.stored.read()) for image in from_tree.images
    ]


def test_the_only_folder_is_the_class(path: Path) -> None:
    path.write_bytes(packed({"train/n01/1.jpg": b"", "train/n01/2.jpg": b""}))
    assert read_tar(path).classes == ("n01",)
    assert names_of(path) == [("n01/1.jpg", 0), ("n01/2.jpg", 0)]


def test_a_file_beside_the_class_folders_has_no_class(path: Path) -> None:
    path.write_bytes(packed({"set/readme": b"", "set/a/1": b"", "set/b/1": b""}))
    assert names_of(path) == [("a/1", 0), ("b/1", 1), ("readme", NO_CLASS)]


def test_files_in_no_folder_have_no_class(path: Path) -> None:
    path.write_bytes(packed({"2.jpg": b"", "1.jpg": b""}))
    assert read_tar(path).classes == ()
    assert names_of(path) == [("1.jpg", NO_CLASS), ("2.jpg", NO_CLASS)]


def test_a_class_folder_without_an_image_keeps_its_label(path: Path) -> None:
    path.write_bytes(packed({"s/a/1": b"", "s/b/": b"", "s/c/1": b""}))
    assert read_tar(path).classes == ("a", "b", "c")


def test_a_tar_of_tars_has_the_inner_tars_as_classes(path: Path) -> None:
    inner = {
        "n02.tar": packed({"n02_1.JPEG": b"two"}),
        "n01.tar": packed({"n01_2.JPEG": b"one", "./n01_1.JPEG": b"other"}),
        "n03.tar": packed({}),
    }
    path.write_bytes(packed(inner))
    listing = read_tar(path)
    assert listing.classes == ("n01", "n02", "n03")
    assert [(image.name, image.label, image.stored.read()) for image in listing.images] == [
        ("n01/n01_1.JPEG", 0, b"other"),
        ("n01/n01_2.JPEG", 0, b"one"),
        ("n02/n02_1.JPEG", 1, b"two"),
    ]


def test_an_inner_tar_with_a_folder_of_its_name_holds_that_folder(path: Path) -> None:
    inner = {f"t/{n}.tar": packed({f"{n}/": b"", f"{n}/1.jpg": b""}) for n in ("n1", "n2")}
    path.write_bytes(packed(inner))
    assert names_of(path) == [("n1/1.jpg", 0), ("n2/1.jpg", 1)]


def test_a_third_level_of_tars_is_a_reject(path: Path) -> None:
    inner = packed({"c.tar": packed({"x": b""}), "1.jpg": b""})
    path.write_bytes(packed({"n1.tar": inner, "n2.tar": packed({})}))
    (reject,) = read_tar(path).rejects
    assert reject.name == "n1/c.tar"
    assert "unpack one level" in reject.reason


def test_hidden_members_are_not_looked_at(path: Path) -> None:
    path.write_bytes(packed({"a/1": b"", "a/._1": b"", ".b/2": b"", "._n1.tar": b"resource fork"}))
    listing = read_tar(path)
    assert ([image.name for image in listing.images], listing.rejects) == (["a/1"], ())


def test_what_is_no_file_is_a_reject_with_its_reason(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        add(tar, "a/1", b"1")
        add(tar, "b/soft", type=tarfile.SYMTYPE, linkname="../a/1")
        add(tar, "b/hard", type=tarfile.LNKTYPE, linkname="a/1")
        add(tar, "b/device", type=tarfile.CHRTYPE)
        add(tar, "b/pipe", type=tarfile.FIFOTYPE)
    listing = read_tar(path)
    assert listing.classes == ("a", "b")
    assert [image.name for image in listing.images] == ["a/1"]
    assert [(one.name, one.reason.split(",")[0]) for one in listing.rejects] == [
        ("b/device", "neither a file nor a folder"),
        ("b/hard", "a link to a/1"),
        ("b/pipe", "neither a file nor a folder"),
        ("b/soft", "a link to ../a/1"),
    ]


def test_a_sparse_file_is_a_reject(path: Path) -> None:
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "a/1", b"1\n0\n9\n".ljust(512, b"\0") + b"123456789", pax_headers=sparse)
        add(tar, "a/2", b"2")
    listing = read_tar(path)
    assert [image.name for image in listing.images] == ["a/2"]
    assert "sparse" in listing.rejects[0].reason


def test_of_two_members_with_one_name_the_second_is_a_reject(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        add(tar, "a/1", b"first")
        add(tar, "./a//1", b"second")
    listing = read_tar(path)
    assert [image.stored.read() for image in listing.images] == [b"first"]
    assert [(one.name, one.reason) for one in listing.rejects] == [
        ("a/1", "a second member of this name")
    ]


@pytest.mark.parametrize("name", ["/etc/a", "../a", "x/../../a", "x/.."])
def test_a_name_that_leads_out_is_a_reject(path: Path, name: str) -> None:
    with tarfile.open(path, "w") as tar:
        add(tar, "s/x/1", b"1")
        add(tar, "s/y/1", b"1")
        add(tar, name, b"2")
    listing = read_tar(path)
    assert [image.name for image in listing.images] == ["x/1", "y/1"]
    assert [one.name for one in listing.rejects] == [name]


def test_a_compressed_tar_says_what_to_do(tmp_path: Path) -> None:
    for name in ("t.tar.gz", "t.tar"):
        (tmp_path / name).write_bytes(gzip.compress(packed({"a/1": b""})))
        with pytest.raises(PackError, match=rf"{name} is compressed \(gzip\).*Decompress"):
            read_tar(tmp_path / name)


@pytest.mark.parametrize("name", ["n1.tar", "n1.tar.gz", "n1.tgz"])
def test_a_compressed_tar_in_a_tar_is_named(path: Path, name: str) -> None:
    path.write_bytes(packed({name: gzip.compress(packed({"1": b""}))}))
    with pytest.raises(PackError, match=rf"{name} in .*t\.tar is compressed"):
        read_tar(path)


@pytest.mark.parametrize("inner", [b"", b"text" * 200, packed({"1": b"1" * 2000})[:1000]])
def test_a_bad_tar_in_a_tar_is_named(path: Path, inner: bytes) -> None:
    path.write_bytes(packed({"n1.tar": packed({"1": b""}), "n2.tar": inner}))
    with pytest.raises(PackError, match=r"n2\.tar in .*t\.tar"):
        read_tar(path)


@pytest.mark.parametrize("data", [b"", b"no tar", bytes(100), b"x" * 5000])
def test_a_file_that_is_no_tar_is_named(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(PackError, match=r"t\.tar is no tar"):
        read_tar(path)


# Three members of 512 bytes of header and 1024 of data; zeros from 4608 on.
@pytest.mark.parametrize("keep", [513, 1500, 1536, 1537, 2048, 4000, 4607, 4608, 5000])
def test_a_tar_cut_anywhere_is_cut_short(path: Path, keep: int) -> None:
    whole = packed({f"a/{i}.jpg": b"x" * 1000 for i in range(3)})
    assert (whole[4607], whole[5632:]) == (0, bytes(len(whole) - 5632))
    path.write_bytes(whole[:keep])
    with pytest.raises(PackError, match=r"t\.tar.* is cut short"):
        read_tar(path)


def test_a_damaged_header_is_named_with_its_byte(path: Path) -> None:
    whole = bytearray(packed({f"a/{i}.jpg": b"x" * 1000 for i in range(3)}))
    whole[1536] ^= 1
    path.write_bytes(whole)
    with pytest.raises(PackError, match=r"after a/0\.jpg\) is damaged: the header at byte 1536"):
        read_tar(path)


def test_a_second_tar_behind_the_end_mark_is_not_passed_over(path: Path) -> None:
    path.write_bytes(packed({"a/1": b""}) + packed({"b/1": b""}))
    with pytest.raises(PackError, match="goes on after the end mark at byte 512"):
        read_tar(path)


def test_a_header_that_asks_for_gigabytes_is_refused(path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    path.write_bytes(packed({"a/1": b""})[:512] + info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(PackError, match=r"damaged: the header at byte 512"):
        read_tar(path)


def test_an_endless_chain_of_headers_is_refused(path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    path.write_bytes((info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 2000)
    with pytest.raises(PackError, match=r"t\.tar"):
        read_tar(path)


def test_a_header_with_a_size_below_zero_is_refused(path: Path) -> None:
    whole = bytearray(packed({"a/1": b"", "a/2": b""}))
    info = tarfile.TarInfo("a/2")
    info.size = -1024
    whole[512:1024] = info.tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(whole)
    with pytest.raises(PackError, match="damaged: the header at byte 512"):
        read_tar(path)


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_no_damage_gives_another_error(path: Path, kind: int) -> None:
    draw = random.Random(kind)
    whole = packed({"n1.tar": packed({"y" * 120: b"1", "x": b"2"}, kind=kind)}, kind=kind)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(whole))] = draw.randrange(256)
        if draw.random() < 0.5:
            mend_checksums(damaged)
        path.write_bytes(damaged)
        try:
            listing = read_tar(path)
        except PackError:
            continue
        for image in listing.images:
            image.stored.read()


def mend_checksums(tar: bytearray) -> None:
    """So that damage gets past the first check."""
    for start in range(0, len(tar) - 511, 512):
        block = tar[start : start + 512]
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            tar[start + 148 : start + 156] = b"%06o\0 " % sum(block)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"none\.tar cannot be read: No such file"):
        read_tar(tmp_path / "none.tar")
