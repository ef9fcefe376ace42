import logging
import os
import subprocess
from collections.abc import Iterator

import PIL
import pytest
from pydantic import ValidationError
from turbojpeg import TurboJPEG

from dtsflow.config.configurable import is_configurable
from dtsflow.decode import Auto, Pillow, auto, turbojpeg
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.errors import MissingPartError


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(turbojpeg, "LIBRARIES", ("libnosuchturbojpeg.so.0",))
    auto._warn.cache_clear()
    yield
    auto._warn.cache_clear()


def test_the_configurables_are_found_where_yaml_names_them() -> None:
    assert is_configurable(Auto)
    assert is_configurable(Pillow)


def test_an_unknown_orientation_is_refused() -> None:
    with pytest.raises(ValidationError, match="'ignore' or 'apply'"):
        Auto(orientation="upright")  # type: ignore[arg-type]


@pytest.mark.usefixtures("absent")
def test_without_the_library_pillow_decodes_and_one_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        decoders = [Auto().start() for _ in range(3)]
    assert all(isinstance(decoder, PillowDecoder) for decoder in decoders)
    assert len(caplog.records) == 1
    assert "libturbojpeg0" in caplog.text


@pytest.mark.usefixtures("absent")
def test_without_the_library_the_plan_says_why() -> None:
    assert Auto().describe().startswith(f"pillow {PIL.__version__} (libturbojpeg not found")
    assert turbojpeg.turbo_version() is None
    with pytest.raises(MissingPartError, match="install libturbojpeg0"):
        turbojpeg.TurboDecoder("ignore")


def test_another_generation_of_pyturbojpeg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TurboJPEG, "_TurboJPEG__report_error")
    with pytest.raises(MissingPartError, match=r"PyTurboJPEG>=1\.7\.3,<2"):
        turbojpeg.load()


def test_the_plan_names_library_and_version() -> None:
    found = turbojpeg.turbo_version()
    if found is None:
        pytest.skip("libturbojpeg is not here")
    assert Auto().describe() == f"turbojpeg {found}"
    assert found[0].isdigit()
    assert isinstance(Auto().start(), turbojpeg.TurboDecoder)
    assert Pillow().describe() == f"pillow {PIL.__version__}"
    assert isinstance(Pillow().start(), PillowDecoder)


def test_no_program_is_started_to_find_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "fork", refuse)
    Auto().start()
    Auto().describe()
