from pathlib import Path

import pytest
from pydantic import ValidationError

from dtsflow.config.configurable import is_configurable
from dtsflow.testing import jpeg, write_block_volume
from dtsflow.volume.datasets.config import Dts


def test_it_scans_its_path(tmp_path: Path) -> None:
    write_block_volume(tmp_path / "v.dts", [[(jpeg(), 0)]])
    source = Dts(path=str(tmp_path))
    source.prepare()
    assert source.scan().num_samples == 1


def test_a_path_is_required_and_not_empty() -> None:
    assert is_configurable(Dts)
    with pytest.raises(ValidationError):
        Dts(path="")
    with pytest.raises(ValidationError):
        Dts()  # type: ignore[call-arg]
