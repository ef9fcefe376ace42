import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.config.configurable import plugin_packages
from dtsflow.plugins_installed import installed_plugins

PARTS = """
from dtsflow.plugin import DType, Field, configurable

@configurable
class Lines:
    path: str = ""
    def records(self): ...

@configurable
class Numbers:
    fields = (Field("x", (), DType.FP64),)
    def start(self): ...

@configurable
class Shift:
    words = 0
    def out_fields(self, fields): ...
    def apply(self, records, out, draws): ...

@configurable
class Taker:
    def open(self, setting): ...

@configurable
class Options:
    pass

class Hidden:
    pass
"""


def install(folder: Path, name: str, package: str, files: dict[str, str]) -> None:
    """What pip leaves of a project: its package, and metadata that advertises it."""
    for file, text in files.items():
        path = folder / package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    about = folder / f"{package}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[dtsflow.plugins]\n{name} = {package}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("dtsflow_try"):
            del sys.modules[name]


def test_a_plugin_is_listed_with_what_yaml_may_name(site: Path) -> None:
    files = {"__init__.py": "from dtsflow_try.parts import Lines", "parts.py": PARTS}
    install(site, "try", "dtsflow_try", files)
    (site / "dtsflow_try" / "conf").mkdir()
    (plugin,) = (one for one in installed_plugins() if one.name == "try")
    assert plugin.project == "try 1.2"
    assert plugin.package == "dtsflow_try"
    assert plugin.conf == site / "dtsflow_try" / "conf"
    assert plugin.problems == ()
    assert plugin.classes == {
        "volume": ("dtsflow_try.Lines",),
        "decode": ("dtsflow_try.parts.Numbers",),
        "po": ("dtsflow_try.parts.Shift",),
        "consumer": ("dtsflow_try.parts.Taker",),
        "other": ("dtsflow_try.parts.Options",),
    }


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("import nobody_has_this", "ModuleNotFoundError: No module named 'nobody_has_this'"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("print(undefined)", "NameError: name 'undefined' is not defined"),
        ("1 / {}['x']", "KeyError: 'x'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_in_a_line(
    site: Path, capsys: pytest.CaptureFixture[str], broken: str, told: str
) -> None:
    install(site, "try", "dtsflow_try", {"__init__.py": "", "bad.py": broken, "parts.py": PARTS})
    assert main(["plugins"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    (line,) = (line for line in out.splitlines() if "cannot be imported" in line)
    assert f"dtsflow_try.bad: {told}" in line
    assert "dtsflow_try.parts.Numbers" in out


def test_a_package_that_is_gone_is_told_and_hides_no_other(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "gone", "dtsflow_try_gone", {"__init__.py": ""})
    (site / "dtsflow_try_gone" / "__init__.py").unlink()
    (site / "dtsflow_try_gone").rmdir()
    install(site, "try", "dtsflow_try", {"__init__.py": PARTS})
    assert main(["plugins"]) == 1
    out = capsys.readouterr().out
    assert "ModuleNotFoundError: No module named 'dtsflow_try_gone'" in out
    assert "dtsflow_try.Lines" in out
    assert {"dtsflow_try", "dtsflow_try_gone"} <= plugin_packages()


def test_without_plugins_it_says_how_to_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dtsflow.plugins_installed.entry_points", lambda group: ())  # noqa: ARG005  # its one argument
    assert main(["plugins"]) == 0
    assert "dtsflow new-plugin NAME --kind loader" in capsys.readouterr().out


TARGETS = [
    "os.system",
    "logging.os.system",
    "builtins.eval",
    "subprocess.Popen",
    "pickle.loads",
    "dtsflowx.Y",
    "dtsflow",
    "eval",
    "dtsflow.config.compose.importlib.import_module",
    "dtsflow.config.configurable.resolve_target",
    "dtsflow.api.open",
    "dtsflow_try.os.system",
    "dtsflow_try.system",
    "dtsflow_try.parts.Hidden",
    "dtsflow_try.parts.Lines.records",
    "..dtsflow.po.Chain",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", ["consumer", "po.operations", "consumer.step"])
def test_no_configuration_can_name_what_is_no_configurable_class_of_a_plugin(
    site: Path, capsys: pytest.CaptureFixture[str], target: str, where: str
) -> None:
    package = {"__init__.py": "import os\nfrom os import system", "parts.py": PARTS}
    install(site, "try", "dtsflow_try", package)
    words = {
        "consumer": [f"consumer._target_={target}"],
        "po.operations": [f"po.operations=[{{_target_: {target}, _args_: [true]}}]"],
        "consumer.step": ["consumer=train", f"consumer.step._target_={target}"],
    }[where]
    assert main(["plan", "volume.path=nothing.dts", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("dtsflow: ")
    assert "._target_: " in line
    assert any(why in line for why in ("is not allowed", "no module", "no configurable class"))


@pytest.mark.parametrize("key", ["_args_", "_partial_", "_recursive_", "_convert_"])
def test_no_key_of_hydras_reaches_a_class(capsys: pytest.CaptureFixture[str], key: str) -> None:
    assert main(["plan", "volume.path=nothing.dts", f"+volume.{key}=true"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"volume.{key}: Dts has no such key" in line
