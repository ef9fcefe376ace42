"""Whether volumes that lie together make whole sets."""

from collections.abc import Sequence
from pathlib import Path

from dtsflow.errors import HeaderError, SetError
from dtsflow.volume.header import Header
from dtsflow.volume.scan import group_files, is_complete, one_set
from dtsflow.volume.verifying.report import Problem

Member = tuple[Path, bytes]  # a file, and its header as it should be


def set_problems(place: Path, members: Sequence[Member]) -> tuple[list[Problem], list[str]]:
    """What is wrong with the sets that these files of a folder or pattern make.

    Several whole data sets beside each other are nothing wrong.
    """
    try:
        found = [(path, Header.parse(raw, path)) for path, raw in members]
    except HeaderError:
        return [], [f"{place}: whether all volumes are here was not checked, a header is damaged"]
    groups = group_files(found)
    whole = [group for group in groups if is_complete(group)]
    broken = [member for group in groups if not is_complete(group) for member in group]
    problems = []
    for group in (*whole, broken):
        try:
            if group:
                one_set(group, place)
        except SetError as error:
            problems.append(Problem(place, "set", None, None, str(error)))
    return problems, []
