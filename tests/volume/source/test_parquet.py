import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dtsflow.errors import MissingPartError, PackError
from dtsflow.testing import damage, jpeg
from dtsflow.volume import Packing, SourceFormat, pack
from dtsflow.volume.datasets.access import open_volumes
from dtsflow.volume.source.base import NO_CLASS, Listing
from dtsflow.volume.source.detect import list_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PHOTOS = [jpeg(8 + number, 9, seed=number) for number in range(7)]
CLASS_LABEL = {"names": ["cat", "dog"], "_type": "ClassLabel"}


def images(photos: Sequence[bytes | None], names: Sequence[str | None]) -> Any:
    rows = [{"bytes": data, "path": name} for data, name in zip(photos, names, strict=True)]
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def write(path: Path, columns: dict[str, Any], features: dict[str, Any] | None = None) -> Path:
    """A file with the metadata that the datasets library writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if features is not None:
        about = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": about})
    pq.write_table(table, path, row_group_size=3)
    return path


def labelled(path: Path, photos: Sequence[bytes | None], labels: Sequence[int | None]) -> Path:
    names = [f"{number}.jpg" for number in range(len(photos))]
    columns = {"image": images(photos, names), "label": pa.array(labels, pa.int64())}
    return write(path, columns, {"image": {"_type": "Image"}, "label": CLASS_LABEL})


def listed(path: Path, **fields: str) -> Listing:
    spool = path.with_name(f"{path.name}-spool") if path.is_dir() else path.parent / "spool"
    return list_source(path, SourceFormat(spool=spool, **fields))  # type: ignore[arg-type]  # the tests' own words


def rows(listing: Listing) -> list[tuple[str, int, bytes]]:
    return [(image.name, image.label, image.stored.read()) for image in listing.images]


def test_images_have_their_names_labels_and_bytes(tmp_path: Path) -> None:
    listing = listed(labelled(tmp_path / "t.parquet", PHOTOS, [0, 1, 0, 1, 0, 1, 1]))
    assert listing.classes == ("cat", "dog")
    assert listing.has_label_fields
    wanted = [(f"{n}.jpg", label, PHOTOS[n]) for n, label in enumerate([0, 1, 0, 1, 0, 1, 1])]
    assert rows(listing) == wanted


def test_names_that_cannot_serve_all_rows_give_way_to_file_and_row(tmp_path: Path) -> None:
    for names in (["a.jpg", None], ["a.jpg", "a.jpg"], ["a.jpg", "../b.jpg"], ["a.jpg", "/b"]):
        columns = {"image": images([PHOTOS[0], b"\x89PNG\r\n\x1a\n"], names)}
        write(tmp_path / "t.parquet", columns)
        found = [image.name for image in listed(tmp_path).images]
        assert found == ["t/0.jpg", "t/1.png"]
        (tmp_path / "t.parquet").unlink()


def test_a_plain_column_of_bytes_and_text_labels_will_do(tmp_path: Path) -> None:
    columns = {"data": pa.array(PHOTOS[:2], pa.large_binary()), "label": ["dog", "cat"]}
    listing = listed(write(tmp_path / "t.parquet", columns))
    assert listing.classes == ("cat", "dog")
    assert rows(listing) == [("t/0.jpg", 1, PHOTOS[0]), ("t/1.jpg", 0, PHOTOS[1])]


def test_columns_may_be_chosen_and_must_be_where_several_could_be_meant(tmp_path: Path) -> None:
    names = ["0.jpg", "1.jpg"]
    columns = {
        "img": images(PHOTOS[:2], names),
        "mask": images(PHOTOS[2:4], names),
        "fine": [4, 2],
        "coarse": [1, 0],
        "score": [0.5, 0.25],
    }
    features = {
        name: {"names": list("abcde"), "_type": "ClassLabel"} for name in ("fine", "coarse")
    }
    path = write(tmp_path / "t.parquet", columns, features)
    with pytest.raises(PackError, match=r"has 2 columns of labels: fine, coarse.*label_field"):
        listed(path)
    with pytest.raises(PackError, match=r"has 2 columns that may be images \(img, mask\)"):
        listed(path, label_field="fine")
    chosen = listed(path, label_field="fine", image_field="mask")
    assert rows(chosen) == [("0.jpg", 4, PHOTOS[2]), ("1.jpg", 2, PHOTOS[3])]
    with pytest.raises(PackError, match=r"has no column 'x'.*img, mask, fine, coarse, score"):
        listed(path, label_field="x")
    for fields in ({"label_field": "score"}, {"image_field": "fine", "label_field": "fine"}):
        with pytest.raises(PackError, match="has other values in the column"):
            listed(path, **fields)


def test_rows_without_an_image_or_a_label_are_named(tmp_path: Path) -> None:
    path = labelled(tmp_path / "t.parquet", [PHOTOS[0], None, *PHOTOS[2:5]], [0, 1, -1, None, 1])
    listing = listed(path)
    assert [image.label for image in listing.images] == [0, NO_CLASS, NO_CLASS, 1]
    assert listing.images[1].why_no_class == "has no label in the column label (t.parquet:2)"
    assert [(one.name, one.reason) for one in listing.rejects] == [
        ("t.parquet:1", "a row without the bytes of an image")
    ]


def test_a_label_that_is_no_class_is_refused(tmp_path: Path) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS[:2], [0, 2])
    with pytest.raises(PackError, match="row 1 of the set has label 2 in 'label', which has 2"):
        listed(path)


def test_without_labels_rows_lie_in_no_class(tmp_path: Path) -> None:
    listing = listed(write(tmp_path / "t.parquet", {"image": images(PHOTOS[:1], ["a.jpg"])}))
    assert [image.label for image in listing.images] == [NO_CLASS]
    assert not listing.has_label_fields


@pytest.mark.parametrize("features", ['{"info": 3}', "{", "[]", '{"info": {"features": []}}'])
def test_metadata_of_another_kind_is_passed_over(tmp_path: Path, features: str) -> None:
    table = pa.table({"image": images(PHOTOS[:1], ["a.jpg"]), "label": [1]})
    pq.write_table(table.replace_schema_metadata({"huggingface": features}), tmp_path / "t.parquet")
    assert listed(tmp_path / "t.parquet").classes == ("0", "1")


def test_files_of_one_set_have_the_same_columns(tmp_path: Path) -> None:
    labelled(tmp_path / "t-0.parquet", PHOTOS[:1], [0])
    write(tmp_path / "t-1.parquet", {"image": images(PHOTOS[:1], ["x"]), "label": [0]})
    with pytest.raises(PackError, match=r"t-1\.parquet has other columns or class names"):
        listed(tmp_path)


def test_a_spool_has_to_be_named_and_is_made_once(tmp_path: Path) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    with pytest.raises(PackError, match=r"are unpacked once, .* --spool FOLDER, or volume\.spool"):
        list_source(path)
    before = rows(listed(path))
    (spooled,) = (tmp_path / "spool").iterdir()
    state = spooled.stat()
    assert rows(listed(path)) == before
    assert spooled.stat().st_mtime_ns == state.st_mtime_ns
    labelled(path, PHOTOS[:6], [0] * 6)  # another file under the name
    assert len(rows(listed(path))) == 6
    assert len(list((tmp_path / "spool").iterdir())) == 2


def test_a_spool_is_not_made_in_a_source(tmp_path: Path) -> None:
    labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    for place in (tmp_path, tmp_path / "spool"):
        with pytest.raises(PackError, match="lies in the source"):
            list_source(tmp_path, SourceFormat(spool=place))
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_a_damaged_spool_is_refused(tmp_path: Path) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    listed(path)
    (spooled,) = (tmp_path / "spool").iterdir()
    whole = spooled.read_bytes()
    for broken in (whole[:-1], b"", whole + b"x", whole[1:], whole[:-30] + b"\xff" + whole[-29:]):
        spooled.write_bytes(broken)
        with pytest.raises(PackError, match=r"\.images, .* is cut short or damaged\. Remove it"):
            listed(path)


@pytest.mark.parametrize("kept", [0, 3, 100, -1, -9])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(PackError, match=r"t\.parquet cannot be read as Parquet"):
        listed(path)


def test_a_damaged_page_is_named_and_leaves_no_spool(tmp_path: Path) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    damage(path, 4, b"\xff" * 40)
    with pytest.raises(PackError, match=r"t\.parquet cannot be read as Parquet"):
        listed(path)
    assert list((tmp_path / "spool").iterdir()) == []


def test_without_pyarrow_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = labelled(tmp_path / "t.parquet", PHOTOS, [0] * 7)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPartError, match=r"pip install 'dtsflow\[parquet\]'"):
        listed(path)


def test_packed_it_is_the_folder_it_came_from_and_nothing_is_lost(tmp_path: Path) -> None:
    labels = [0, 1, 0, 1, 0, 1, 1]
    for number, label in enumerate(labels):
        place = tmp_path / "tree" / ("cat", "dog")[label] / f"{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(PHOTOS[number])
    labelled(
        tmp_path / "t" / "t-0-of-1.parquet",
        [*PHOTOS, None, b"no image", PHOTOS[0]],
        [*labels, 0, 0, -1],
    )
    source = SourceFormat(spool=tmp_path / "spool")
    plain = pack(tmp_path / "tree", tmp_path / "a", Packing(split="train"))
    packed = pack(tmp_path / "t", tmp_path / "b", Packing(split="train", source=source))
    assert (packed.images, packed.rejects) == (7, 3)
    assert contents(packed.path) == contents(plain.path)


def contents(path: Path) -> list[tuple[bytes, int, str]]:
    with open_volumes(path) as opened:
        return sorted((bytes(one.data), one.label, one.class_name) for one in opened)
