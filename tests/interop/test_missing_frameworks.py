import importlib
import sys

import pytest

from dtsflow.errors import MissingPartError


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_framework_that_is_absent_is_named_with_its_extra(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"dtsflow.interop.{framework}"
    for name in [name for name in sys.modules if name == ours or name.startswith(f"{ours}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)  # Python's way to say: absent
    with pytest.raises(MissingPartError, match=rf"pip install 'dtsflow\[{framework}\]'"):
        importlib.import_module(ours)
