import pytest
from pydantic import ValidationError

from dtsflow.errors import MemoryPlanError
from dtsflow.memory import device_plan
from dtsflow.memory.device_plan import Budget


def test_a_plan_of_exactly_the_limit_is_allowed_and_a_byte_more_is_not() -> None:
    Budget(limit=100).check({"a": 60, "b": 40})
    with pytest.raises(MemoryPlanError, match=r"needs 101 bytes and memory\.limit is 100"):
        Budget(limit=100).check({"a": 60, "b": 41})


def test_the_three_biggest_entries_are_named_biggest_first() -> None:
    entries = {"small": 1, "third": 10, "first": 1_000_000, "second": 500}
    with pytest.raises(MemoryPlanError) as caught:
        Budget(limit=9).check(entries)
    assert "first 1,000,000, second 500, third 10." in str(caught.value)
    assert "small" not in str(caught.value).partition("Choose")[0]


def test_auto_is_what_the_machine_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_plan, "memory_limit", lambda: 123)
    assert Budget().allowed_bytes() == 123
    assert Budget(limit=7).allowed_bytes() == 7


@pytest.mark.parametrize("limit", [0, -5, "automatic", 1.5])
def test_limits_that_are_none_are_refused(limit: object) -> None:
    with pytest.raises(ValidationError):
        Budget(limit=limit)  # type: ignore[arg-type]  # that it is refused is the test
