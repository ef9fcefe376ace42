import copy
import pickle
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from dtsflow.config import configurable as module
from dtsflow.config.configurable import (
    configurable,
    is_configurable,
    nearest,
    plugin_packages,
    resolve_target,
)
from dtsflow.errors import ConfigError
from dtsflow.station import Station


@configurable
class Box:
    """Something with sides."""

    width: Annotated[int, Field(ge=1)]
    name: str = "box"


class Crate(Box):
    """Not marked itself."""


def test_values_are_checked_and_frozen() -> None:
    box = Box(3)
    with pytest.raises(FrozenInstanceError):
        box.width = 4  # type: ignore[misc]  # that it is refused is the test
    for wrong in ({"width": 0}, {"width": "wide"}, {"width": 2, "depth": 1}, {}):
        with pytest.raises(ValidationError):
            Box(**wrong)


def test_a_made_value_is_compared_copied_and_pickled_by_what_it_holds() -> None:
    station = Station(poison=True)
    assert station == Station(poison=True) != Station()
    assert copy.deepcopy(station) == station
    assert pickle.loads(pickle.dumps(station)) == station


def test_only_the_marked_class_itself_may_be_named() -> None:
    assert is_configurable(Box)
    assert not any(map(is_configurable, (Crate, Box(1), int, "Box", None)))


@pytest.mark.parametrize(
    "target", ["os.system", "subprocess.Popen", "builtins.eval", "dtsflowx.Y", "system", ""]
)
def test_what_is_outside_is_not_even_imported(target: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigError, match=r"^po\._target_: .* is not allowed"):
        resolve_target(target, "po")
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("dtsflow.po.CentreCrop", "Did you mean 'CenterCrop'?"),
        ("dtsflow.station.double_buffer.DoubleBuffer", "no configurable class 'DoubleBuffer'"),
        ("dtsflow.po.crop.Annotated", "no configurable class 'Annotated'"),
        ("dtsflow.nothing.X", "there is no module 'dtsflow.nothing'"),
    ],
)
def test_what_is_inside_and_may_not_be_named_is_refused(target: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_target(target, "po.operations[1]")
    assert str(caught.value).startswith("po.operations[1]._target_: ")
    assert message in str(caught.value)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The package of an installed plugin, with one configurable class."""
    (tmp_path / "dtsflow_tint").mkdir()
    (tmp_path / "dtsflow_tint" / "__init__.py").write_text(
        "from dtsflow.config.configurable import configurable\n"
        "@configurable\nclass Tint:\n    'Tints.'\n    hue: int = 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("tint", "dtsflow_tint.ops:thing", "dtsflow.plugins")
    monkeypatch.setattr(module, "_plugin_points", lambda: [point])
    yield "dtsflow_tint"
    sys.modules.pop("dtsflow_tint", None)


def test_a_plugin_that_advertises_itself_may_be_named(plugin: str) -> None:
    assert plugin_packages() == {plugin}
    made = resolve_target(f"{plugin}.Tint", "po")
    assert made(hue=4).hue == 4
    with pytest.raises(ConfigError, match=r"Only classes of dtsflow, dtsflow_tint may"):
        resolve_target("os.system", "po")


def test_the_nearest_name_is_meant_or_all_are_told() -> None:
    assert nearest("shufle", ["shuffle", "window"]) == " Did you mean 'shuffle'?"
    assert nearest("zzz", ["b", "a", "b"]) == " Valid names: a, b."
    assert nearest("zzz", []) == ""
