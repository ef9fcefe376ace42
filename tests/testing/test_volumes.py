import io
from pathlib import Path

from PIL import Image

from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume
from dtsflow.volume.datasets.scan import scan


def test_a_jpeg_is_one_and_depends_on_its_seed() -> None:
    with Image.open(io.BytesIO(jpeg(21, 13, seed=5))) as image:
        image.load()
        assert (image.format, image.size) == ("JPEG", (21, 13))
    assert jpeg(seed=1) == jpeg(seed=1) != jpeg(seed=2)


def test_a_volume_has_its_full_size(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "v.dts", [[(jpeg(), 0)]] * 4)
    assert path.stat().st_size == 5 << 24


def test_a_set_is_named_as_the_design_says(tmp_path: Path) -> None:
    paths = write_block_set(tmp_path, "v", [[[(b"a", 0)]], [[(b"b", 1)]]])
    assert [path.name for path in paths] == ["v-00001-of-00002.dts", "v-00002-of-00002.dts"]
    assert scan(tmp_path).num_samples == 2


def test_damage_changes_bytes_in_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abcdef")
    damage(path, 2, b"XY")
    assert path.read_bytes() == b"abXYef"
