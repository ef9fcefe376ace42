import os
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import TensorFileError
from dtsflow.memory.align import aligned_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.file import JSON_START, Entry, decode, encode, load_tensors, save_tensors
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import Tensor

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)


def some() -> dict[str, Tensor]:
    return {
        "weights": Tensor.copy_of(np.arange(200, dtype=np.float32).reshape(20, 10)),
        "labels": Tensor.copy_of(np.arange(64, dtype=np.int32)),
        "bits": Tensor.copy_of(np.array([0x3F80, 0xFFFF, 0], np.uint16)),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.tensors"
    save_tensors(path, some())
    return path


def data_start(content: bytes | bytearray) -> int:
    length = int.from_bytes(content[12:16], "little")
    return -(-(JSON_START + length) // 256) * 256


def test_what_was_saved_is_loaded_in_its_order_and_aligned(saved: Path) -> None:
    loaded = load_tensors(saved)
    assert list(loaded) == ["weights", "labels", "bits"]
    for name, tensor in some().items():
        assert loaded[name].dtype is tensor.dtype
        assert loaded[name].shape == tensor.shape
        assert loaded[name].bytes.tobytes() == tensor.bytes.tobytes()
        assert loaded[name].array.ctypes.data % 256 == 0


@given(
    st.lists(
        st.tuples(names, st.sampled_from(DType), st.integers(1, 400)),
        unique_by=lambda each: each[0],
        max_size=6,
    )
)
def test_any_set_of_tensors_comes_back(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, DType, int]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "set"
    tensors = {name: Tensor.zeros(Shape(1, 1, 1, size), dtype) for name, dtype, size in asked}
    for number, tensor in enumerate(tensors.values()):
        tensor.bytes[:] = np.arange(tensor.bytes.size) + number
    save_tensors(path, tensors)
    assert path.stat().st_size % 256 == 0
    loaded = load_tensors(path)
    assert list(loaded) == list(tensors)
    assert all(loaded[n].bytes.tobytes() == tensors[n].bytes.tobytes() for n in tensors)


def test_every_tensor_lies_at_a_multiple_of_256_bytes(saved: Path) -> None:
    content = saved.read_bytes()
    start = data_start(content)
    # 800 bytes of weights end in the fourth piece of 256, 256 of labels fill the fifth.
    for offset, tensor in zip((0, 1024, 1280), some().values(), strict=True):
        assert content[start + offset :].startswith(tensor.bytes.tobytes())
    assert len(content) == start + 1536


def test_tensors_are_loaded_into_the_memory_that_a_pin_function_gives(saved: Path) -> None:
    pool: list[npt.NDArray[np.uint8]] = []

    def pin(nbytes: int) -> npt.NDArray[np.uint8]:
        pool.append(aligned_bytes(nbytes, 256))
        return pool[-1]

    loaded = load_tensors(saved, pin=pin)
    for tensor, memory in zip(loaded.values(), pool, strict=True):
        assert np.shares_memory(tensor.array, memory)


def test_saving_again_takes_the_place_of_the_old_file_and_leaves_nothing_else(saved: Path) -> None:
    save_tensors(saved, {"one": Tensor.copy_of(np.ones(3, np.float32))})
    assert list(load_tensors(saved)) == ["one"]
    assert list(saved.parent.iterdir()) == [saved]


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TensorFileError, match=r"model\.tensors could not be written: .*No space"):
        save_tensors(saved, {})
    assert list(load_tensors(saved)) == ["weights", "labels", "bits"]
    assert list(saved.parent.iterdir()) == [saved]


def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new"
    seen: list[bool] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        seen.append(path.exists())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    save_tensors(path, some())
    assert seen[0] is False


@pytest.mark.parametrize("name", ["", "two\nlines", "\ud800"])
def test_a_name_that_nobody_could_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TensorFileError, match=r"tensor 0 has the name .* printable"):
        save_tensors(tmp_path / "x", {name: Tensor.zeros(Shape(1, 1, 1, 1), DType.INT8)})
    assert list(tmp_path.iterdir()) == []


@given(st.data())
def test_a_file_cut_short_anywhere_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    save_tensors(folder / "whole", some())
    content = (folder / "whole").read_bytes()
    cut = folder / "cut"
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(TensorFileError, match=r"cut: it (has|begins)"):
        load_tensors(cut)


def test_the_tensor_that_a_short_file_lacks_is_named(saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: data_start(content) + 1100])
    with pytest.raises(TensorFileError, match=r"model\.tensors: .* tensor 'labels' ends .* short"):
        load_tensors(saved)


@given(st.data())
def test_a_changed_byte_of_index_or_tensor_is_found_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "set"
    save_tensors(path, some())
    content = bytearray(path.read_bytes())
    start, (length,) = data_start(content), struct.unpack_from("<I", content, 12)
    parts = (0, JSON_START + length), (start, start + 800), (start + 1024, start + 1286)
    first, end = data.draw(st.sampled_from(parts))
    content[data.draw(st.integers(first, end - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(TensorFileError, match=f"^{path}: "):
        load_tensors(path)


def test_the_tensor_that_is_damaged_is_named(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[data_start(content) + 1024] ^= 1
    saved.write_bytes(content)
    with pytest.raises(TensorFileError, match=r"model\.tensors: tensor 'labels' has the CRC-32"):
        load_tensors(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it begins with b''"),
        (b"\x89PNG\r\n\x1a\n" + bytes(300), "it begins with b'.x89PNG"),
        (struct.pack("<8sII", b"DTSFTENS", 2, 0) + bytes(240), "version 2 and .* reads 1"),
        (struct.pack("<8sII", b"DTSFTENS", 1, 1 << 31) + bytes(240), "its index ends at 21"),
        (encode([]) + b"more", "its tensors end at 256: something was added"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(TensorFileError, match=rf"foreign: .*{message}"):
        load_tensors(path)


def test_no_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TensorFileError, match=r"nothing could not be read: .*No such file"):
        load_tensors(tmp_path / "nothing")


def entry(name: str = "a", offset: int = 0) -> Entry:
    return Entry(name, DType.FP32, (1, 1, 1, 5), offset, 7)


def test_an_index_is_read_as_it_was_written() -> None:
    entries = entry("a"), entry("ü", 256)
    text = encode(entries).rstrip(b"\0")
    assert decode(text) == entries


@pytest.mark.parametrize(
    "wrong",
    [
        [entry(offset=256)],
        [entry("a"), entry("b")],
        [entry("a"), entry("a", 256)],
        [entry("a"), entry("b", 512)],
    ],
)
def test_tensors_that_overlap_leave_gaps_or_share_a_name_are_refused(wrong: list[Entry]) -> None:
    with pytest.raises(TensorFileError, match=r"tensor '\w' is at byte \d+ of the data"):
        decode(encode(wrong).rstrip(b"\0"))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[1]",
        b"[" * 100_000,
        b'[{"name":"a","dtype":"FP32","shape":[1,1,1],"offset":0,"crc32":0}]',
        b'[{"name":"a","dtype":"FP32","shape":[1,1,1,0],"offset":0,"crc32":0}]',
        b'[{"name":"a","dtype":"FP32","shape":[1,1,1,true],"offset":0,"crc32":0}]',
        b'[{"name":"a","dtype":"FP33","shape":[1,1,1,1],"offset":0,"crc32":0}]',
        b'[{"name":"","dtype":"FP32","shape":[1,1,1,1],"offset":0,"crc32":0}]',
        b'[{"name":"a","dtype":"FP32","shape":[1,1,1,1],"offset":0,"crc32":-1}]',
        b'[{"name":"a","dtype":"FP32","shape":[1,1,1,1],"offset":0}]',
    ],
)
def test_an_index_with_a_right_checksum_and_wrong_contents_is_refused(text: bytes) -> None:
    head = struct.pack("<8sII", b"DTSFTENS", 1, len(text))
    index = head + struct.pack("<I", zlib.crc32(text, zlib.crc32(head))) + text
    with pytest.raises(TensorFileError, match="its index is not what save_tensors writes"):
        decode(index)


def test_a_claim_of_more_than_the_file_holds_allocates_nothing(tmp_path: Path) -> None:
    huge = Entry("huge", DType.FP64, (1 << 40, 1 << 40, 1, 1), 0, 0)
    (tmp_path / "x").write_bytes(encode([huge]) + bytes(4096))
    with pytest.raises(TensorFileError, match=r"tensor 'huge' ends at .* cut short"):
        load_tensors(tmp_path / "x")
