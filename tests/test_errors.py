import inspect
import re

import pytest

from dtsflow import errors
from dtsflow.errors import DtsflowError

CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if inspect.isclass(found) and found is not DtsflowError
}


def drawn() -> dict[str, str]:
    """Each class of the drawing with the one it hangs from."""
    parents: list[tuple[int, str]] = [(0, "DtsflowError")]
    found = {}
    for line in (errors.__doc__ or "").splitlines():
        branch = re.search(r"[├└]── (\w+)", line)
        if branch is None:
            continue
        parents = [parent for parent in parents if parent[0] < branch.start() + 1]
        found[branch[1]] = parents[-1][1]
        parents.append((branch.start() + 1, branch[1]))
    return found


def test_the_drawing_is_the_tree() -> None:
    assert len(CLASSES) > 10
    assert drawn() == {name: found.__bases__[0].__name__ for name, found in CLASSES.items()}
    assert all(len(found.__bases__) == 1 for found in CLASSES.values())


@pytest.mark.parametrize("error", CLASSES.values(), ids=CLASSES)
def test_an_error_is_made_again_from_its_arguments(error: type[DtsflowError]) -> None:
    # The resident reader gives each caller an error of its own this way.
    first = error("what, where, what to do")
    again = type(first)(*first.args)
    assert str(again) == "what, where, what to do"
    assert isinstance(again, DtsflowError)
