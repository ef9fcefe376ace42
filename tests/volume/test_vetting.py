import json
import struct
import zlib
from pathlib import Path

from dtsflow.testing import jpeg
from dtsflow.volume.image_tree import NO_CLASS, SourceImage
from dtsflow.volume.vetting import Accepted, Reject, vet, write_rejects

CAPACITY = 20_000


def verdict(path: Path, data: bytes, label: int = 0) -> Accepted | Reject:
    path.write_bytes(data)
    return verdict_on(path, label)


def verdict_on(path: Path, label: int = 0) -> Accepted | Reject:
    image = SourceImage(path, path.name, label)
    accepted, rejects = vet([image], CAPACITY, lambda _done, _images: None)
    assert len(accepted) + len(rejects) == 1
    return accepted[0] if accepted else rejects[0]


def png(width: int, height: int) -> bytes:
    """The first bytes of a PNG, which is as far as vetting reads."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + bytes(4)


def test_an_image_is_measured(tmp_path: Path) -> None:
    data = jpeg(40, 30)
    accepted = verdict(tmp_path / "a.jpg", data)
    assert isinstance(accepted, Accepted)
    assert (accepted.size, accepted.area) == (len(data), 1200)


def test_content_is_sniffed_not_believed(tmp_path: Path) -> None:
    assert isinstance(verdict(tmp_path / "a.png", jpeg()), Accepted)
    assert verdict(tmp_path / "a.jpg", b"no image at all") == Reject(
        "a.jpg", "not an image that can be read"
    )


def test_files_without_a_usable_image_say_why(tmp_path: Path) -> None:
    assert verdict(tmp_path / "a.jpg", b"") == Reject("a.jpg", "the file is empty")
    assert verdict(tmp_path / "b.jpg", jpeg() + bytes(CAPACITY)) == Reject(
        "b.jpg", f"{CAPACITY + len(jpeg())} bytes, a block takes {CAPACITY}"
    )
    assert verdict(tmp_path / "c.jpg", jpeg(), NO_CLASS) == Reject(
        "c.jpg", "lies in no class folder"
    )
    (tmp_path / "d.jpg").symlink_to(tmp_path / "gone")
    assert verdict_on(tmp_path / "d.jpg") == Reject("d.jpg", "No such file or directory")


def test_a_large_image_is_welcome_and_an_absurd_one_is_not(tmp_path: Path) -> None:
    assert isinstance(verdict(tmp_path / "a.png", png(12_000, 10_000)), Accepted)
    bomb = verdict(tmp_path / "b.png", png(65_500, 65_500))
    assert isinstance(bomb, Reject)
    assert "decompression bomb" in bomb.reason


def test_progress_counts_every_image(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg())
    seen: list[tuple[int, int]] = []
    vet(
        [SourceImage(tmp_path / "a.jpg", "a", 0)] * 3,
        CAPACITY,
        lambda done, images: seen.append((done, images)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_rejects_are_one_json_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rejects(path, [Reject("ä/\udcff.jpg", "empty"), Reject("b", "c")])
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    assert lines == [{"name": "ä/\udcff.jpg", "reason": "empty"}, {"name": "b", "reason": "c"}]
