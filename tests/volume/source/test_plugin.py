"""Sources of a pack that an installed plugin brings."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.errors import PackError, SetError
from dtsflow.testing import jpeg
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.source.base import SourceFormat
from dtsflow.volume.source.detect import list_source
from dtsflow.volume.source.plugin import source_names

NAMES = """
from pathlib import Path
from typing import ClassVar

from dtsflow.plugin import ImageList, VolumeError, configurable


@configurable
class Names:
    '''A text file with the name of an image a line.'''

    suffixes: ClassVar = (".names",)
    path: str
    label: int = 0
    limit: int | None = None

    def list_images(self):
        place = Path(self.path)
        names = place.read_text().split()[: self.limit]
        labels, where = [self.label] * len(names), lambda n: f"{place}, line {n + 1}"
        return ImageList(place.parent, names, labels, ("no", "yes"), where)


class Plain(Names):
    pass
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, with the one that lists names."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    install(folder, "dtsflow_names", NAMES, "names = dtsflow_names:Names")
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("dtsflow_names"):
            del sys.modules[name]


def install(folder: Path, package: str, code: str, source: str, *, advertised: bool = True) -> None:
    """What pip leaves of a plugin with one source of a pack."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(code)
    about = folder / f"{package}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    points = f"[dtsflow.plugins]\n{package} = {package}\n" if advertised else ""
    (about / "entry_points.txt").write_text(f"{points}[dtsflow.sources]\n{source}\n")


@pytest.fixture
def names(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(jpeg(8, 8, seed=number))
    (folder / "all.names").write_text("3.jpg\n0.jpg\n2.jpg\n")
    return folder / "all.names"


@pytest.mark.usefixtures("site")
def test_a_file_is_a_source_by_its_suffix_or_by_the_formats_name(names: Path) -> None:
    assert "names" in source_names()
    found = list_source(names)
    assert [image.name for image in found.images] == ["3.jpg", "0.jpg", "2.jpg"]
    assert {image.label for image in found.images} == {0}
    other = names.rename(names.with_suffix(".txt"))
    options = {"label": "1", "limit": "2"}
    found = list_source(other, SourceFormat("names", options=options))
    assert [(image.name, image.label) for image in found.images] == [("3.jpg", 1), ("0.jpg", 1)]


@pytest.mark.usefixtures("site")
def test_it_is_packed_and_read_as_it_is(
    names: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pack", str(names), str(tmp_path / "out"), "--split", "train", "--option", "label=1"]
    assert main(words) == 0
    assert "3 images, 2 classes" in capsys.readouterr().out
    assert (tmp_path / "out" / "all_train_lv0.dts").is_file()
    found = Raw(path=str(names)).scan()
    assert [found.where(number) for number in range(3)] == [
        str(names.parent / name) for name in ("3.jpg", "0.jpg", "2.jpg")
    ]
    assert found.paths == (names.parent,)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--option", "limit=many"], "--option limit: Input should be a valid integer"),
        (["--option", "lable=1"], "--option lable: Unexpected keyword argument"),
        (["--option", "path=x"], "--option path=…: the path is the source itself"),
        (["--label-field", "x"], "is a source of the plugin 'names': --image-field"),
        (["--option", "label=7"], "all.names, line 1: 7 is no label"),
    ],
)
def test_a_wrong_option_is_told(
    names: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    pack = ["pack", str(names), str(tmp_path / "out"), "--split", "train"]
    assert main([*pack, *words]) != 0
    assert told in capsys.readouterr().err


def test_an_option_is_none_of_dtsflows_own_sources(names: Path) -> None:
    with pytest.raises(PackError, match="is read by dtsflow itself, and --option label is for"):
        list_source(names.parent, SourceFormat(options={"label": "1"}))


def test_without_the_plugin_the_file_is_no_source(names: Path) -> None:
    with pytest.raises(PackError, match=r"all\.names is no source of images.*dtsflow plugins"):
        list_source(names)
    with pytest.raises(PackError, match="there is no source 'names'"):
        list_source(names, SourceFormat("names"))


@pytest.mark.usefixtures("site")
def test_errors_of_a_list_reach_whoever_packs(names: Path) -> None:
    names.write_text("3.jpg\n9.jpg\n")
    with pytest.raises(SetError, match=r"all\.names, line 2: .*9\.jpg' cannot be found"):
        list_source(names)


def test_two_plugins_of_one_suffix_ask_for_the_format(site: Path, names: Path) -> None:
    install(site, "dtsflow_names_too", NAMES, "others = dtsflow_names_too:Names")
    with pytest.raises(PackError, match=r"\.names files are sources of the plugins names, others"):
        list_source(names)
    assert len(list_source(names, SourceFormat("others")).images) == 3


@pytest.mark.parametrize(
    ("code", "target", "told"),
    [
        (NAMES, "dtsflow_names_bad:Plain", "is no @configurable class"),
        (NAMES, "dtsflow_names_bad:Nothing", "cannot be imported: .*Nothing"),
        ("import dtsflow_names_absent", "dtsflow_names_bad:Names", "cannot be imported"),
        (NAMES.replace('(".names",)', '".names"'), "dtsflow_names_bad:Names", "must be a tuple"),
        (NAMES, "os:system", "'bad' is os:system, and that package does not advertise"),
    ],
)
def test_a_source_that_cannot_be_used_is_told_why(
    site: Path, names: Path, code: str, target: str, told: str
) -> None:
    install(site, "dtsflow_names_bad", code, f"bad = {target}")
    with pytest.raises(PackError, match=told):
        list_source(names)


def test_only_packages_that_advertise_plugins_are_imported(site: Path, names: Path) -> None:
    code = "raise SystemExit('imported')"
    install(site, "dtsflow_names_bad", code, "bad = dtsflow_names_bad:X", advertised=False)
    with pytest.raises(PackError, match=r"does not advertise the entry point group dtsflow\.plug"):
        list_source(names, SourceFormat("bad"))
    assert "dtsflow_names_bad" not in sys.modules


@pytest.mark.usefixtures("site")
def test_the_list_of_plugins_says_what_can_be_packed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plugins"])
    shown = capsys.readouterr().out
    assert "volume    dtsflow_names.Names" in shown
    assert "pack      names (.names)" in shown
