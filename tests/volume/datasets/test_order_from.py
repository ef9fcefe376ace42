import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.errors import PlanError, SetError, VolumeError
from dtsflow.native.core import load
from dtsflow.testing import damage, jpeg, write_small_set
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.datasets.order_from import arranged_as
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.manifest import manifest_path, read_manifest
from dtsflow.volume.packing.options import Encoding, Layout, Packing
from dtsflow.volume.packing.pack import pack


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `images`, and in `volumes` the three volumes packed from it."""
    root = tmp_path_factory.mktemp("packed")
    for number in range(14):
        own = root / "images" / f"class{number % 3}"
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{number:02d}.jpg").write_bytes(jpeg(16 + number, 20, seed=number))
    pack(root / "images", root / "volumes", Packing(split="train", layout=Layout(volumes=3)))
    return root


@pytest.fixture
def copied(packed: Path, tmp_path: Path) -> Path:
    """The same, to be changed; the volumes' blocks are holes for the most part."""
    shutil.copytree(packed / "images", tmp_path / "images")
    (tmp_path / "volumes").mkdir()
    for path in (packed / "volumes").iterdir():
        if path.suffix == ".dts":
            with path.open("rb") as source, (tmp_path / "volumes" / path.name).open("wb") as file:
                while piece := source.read(1 << 20):
                    file.seek(len(piece), 1) if not any(piece) else file.write(piece)
                file.truncate(path.stat().st_size)
        else:
            shutil.copy(path, tmp_path / "volumes")
    return tmp_path


def arranged(root: Path, volumes: str = "volumes") -> RawSet:
    return arranged_as(Raw(path=str(root / "images")).scan(), root / volumes)


def manifests(root: Path) -> list[Path]:
    return [manifest_path(path) for path in sorted((root / "volumes").glob("*.dts"))]


def test_ids_blocks_labels_and_fingerprint_are_the_volumes(packed: Path) -> None:
    found, volumes = arranged(packed), scan(packed / "volumes")
    entries = [entry for path in manifests(packed) for entry in read_manifest(path)]
    assert list(found.runs.names) == [entry.name for entry in entries]
    assert found.labels.tolist() == [entry.label for entry in entries]
    assert found.counts.tolist() == volumes.counts.tolist()
    assert found.class_names == volumes.class_names
    assert found.fingerprint() == volumes.fingerprint()
    assert found.has_blocks
    assert found.has_checksums
    assert found.block_of(13) == volumes.block_of(13)
    assert found.where(0) == str(packed / "images" / entries[0].name)


def test_images_that_were_not_packed_are_left_out(copied: Path) -> None:
    (copied / "images" / "class0" / "new.jpg").write_bytes(b"new")
    assert arranged(copied).num_samples == 14


@pytest.mark.parametrize("encoding", [Encoding(level=1), Encoding(restarts=True)])
def test_volumes_of_other_bytes_give_the_order_and_their_own_fingerprint(
    packed: Path, tmp_path: Path, encoding: Encoding
) -> None:
    if encoding.restarts and load() is None:
        pytest.skip("the native core was not built")
    path = pack(packed / "images", tmp_path, Packing(split="train", encoding=encoding)).path
    found, volumes = arranged_as(Raw(path=str(packed / "images")).scan(), path), scan(path)
    assert found.counts.tolist() == volumes.counts.tolist()
    assert not found.has_checksums
    assert found.fingerprint() not in (volumes.fingerprint(), arranged(packed).fingerprint())


def test_volumes_of_the_upstream_layout_give_it_too(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "images", tmp_path / "images")
    for path in sorted((tmp_path / "images").rglob("*.jpg")):
        path.rename(path.with_suffix(".jpeg"))
    layout = Layout(upstream=True, min_blocks=2)
    volume = pack(tmp_path / "images", tmp_path / "v", Packing(split="train", layout=layout)).path
    assert scan(volume).files[0].extension is None
    found = arranged(tmp_path, "v")
    assert found.fingerprint() == scan(volume).fingerprint()
    assert not found.names_classes
    # No index vouches for the manifest: it is held against the blocks.
    lines = [json.loads(line) for line in manifest_path(volume).read_text().splitlines()]
    lines[3]["label"] = (lines[3]["label"] + 1) % 3
    manifest_path(volume).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SetError, match=r"manifest\.jsonl is not of its volume: it gives .*sample"):
        arranged(tmp_path, "v")


def test_a_name_that_is_gone_is_named_with_its_sample(copied: Path) -> None:
    entry = list(read_manifest(manifests(copied)[1]))[2]
    (copied / "images" / entry.name).unlink()
    with pytest.raises(
        SetError, match=rf"images has no '{entry.name}', which sample 2 of .*-00002-of-00003\.dts"
    ):
        arranged(copied)


def test_another_size_is_named_with_both(copied: Path) -> None:
    entry = next(read_manifest(manifests(copied)[2]))
    (copied / "images" / entry.name).write_bytes(b"short")
    with pytest.raises(SetError, match=rf"{entry.name} has 5 bytes, it had {entry.bytes} when"):
        arranged(copied)


def test_a_missing_manifest_is_named_with_the_cure(copied: Path) -> None:
    manifests(copied)[1].unlink()
    with pytest.raises(
        SetError, match=r"00002-of-00003\.dts\.manifest\.jsonl cannot be read: .*copy it to beside"
    ):
        arranged(copied)


@pytest.mark.parametrize("what", ["swapped", "shorter", "damaged"])
def test_a_manifest_that_is_not_the_volumes_is_refused(copied: Path, what: str) -> None:
    first, second, _ = manifests(copied)
    text = first.read_text()
    changed = {"swapped": second.read_text(), "shorter": text[: text.rindex("{")], "damaged": "{}"}
    first.write_text(changed[what])
    with pytest.raises(SetError, match=r"jsonl is not the manifest of .*: it is another or was"):
        arranged(copied)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": 1}, "line 1 is none of its samples"),
        ({"label": -1}, "line 1 is none of its samples"),
        ({"name": 3}, "line 1 is none of its samples"),
        ({"bytes": "9"}, "line 1 is none of its samples"),
        ({"crc32": 1 << 32}, "line 1 is none of its samples"),
        (None, "it has 1 lines for 2 samples"),
    ],
)
def test_without_an_index_each_line_is_looked_at(
    tmp_path: Path, write_indexed: Callable[..., Path], change: dict[str, object] | None, why: str
) -> None:
    blocks = [[(b"zero", 0), (b"one", 1)]]
    volume = write_indexed(tmp_path / "v.dts", blocks)
    damage(volume, 4096, b"\0" * 4096)  # the index
    for label, data in enumerate((b"zero", b"one")):
        (tmp_path / "images" / f"class{label}").mkdir(parents=True)
        (tmp_path / "images" / f"class{label}" / f"{label}.jpg").write_bytes(data)
    assert arranged(tmp_path, "v.dts").num_samples == 2
    lines = manifest_path(volume).read_text().splitlines(keepends=True)
    lines[0] = json.dumps(json.loads(lines[0]) | (change or {})) + "\n"
    manifest_path(volume).write_text("".join(lines[: 1 if change is None else 2]))
    with pytest.raises(VolumeError, match=why):
        arranged(tmp_path, "v.dts")


def test_what_has_an_order_of_its_own_takes_no_other(packed: Path, tmp_path: Path) -> None:
    volumes = scan(packed / "volumes")
    with pytest.raises(PlanError, match="holds blocks, which have their own"):
        arranged_as(volumes, packed / "volumes")
    digits = write_small_set(tmp_path / "x.dts", Kind.MNIST, 4)
    with pytest.raises(PlanError, match="holds MNIST pixels, not packed images"):
        arranged_as(Raw(path=str(packed / "images")).scan(), digits)
    with pytest.raises(SetError, match="no volume found"):
        arranged_as(Raw(path=str(packed / "images")).scan(), tmp_path / "none.dts")
