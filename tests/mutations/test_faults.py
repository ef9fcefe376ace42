"""That every listed fault can be seeded as it stands; run.py says which are caught."""

import ast
from pathlib import Path

import pytest
from faults import ROOT, Fault, FaultError, chosen, known_tests, locate, nodes_of, read_faults
from faults import sources as read_sources

LEAST = 100


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    return read_sources()


@pytest.fixture(scope="module")
def faults() -> list[Fault]:
    return read_faults()


@pytest.fixture
def fault() -> Fault:
    return Fault("wrong", find="a < b", replace="a > b", why="It is wrong.", tests=("test_it",))


def test_every_fault_stands_in_one_place_and_its_tests_are_there(
    faults: list[Fault], sources: dict[Path, str]
) -> None:
    tests, wrong = known_tests(), []
    for one in faults:
        try:
            locate(one, sources)
            nodes_of(one, tests)
        except FaultError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_every_fault_is_a_change_that_python_can_read(
    faults: list[Fault], sources: dict[Path, str]
) -> None:
    for one in faults:
        path = locate(one, sources)
        changed = sources[path].replace(one.find, one.replace)
        assert changed != sources[path], one.name
        if path.suffix == ".py":
            ast.parse(changed, one.name)


def test_faults_are_many_and_in_every_package(
    faults: list[Fault], sources: dict[Path, str]
) -> None:
    touched = {locate(one, sources).parts[:2] for one in faults}
    packages = {path.parts[:2] for path in sources if len(path.parts) > 2}
    of_code = {package for package in packages if package[0] == "dtsflow"}
    assert len(faults) >= LEAST
    assert of_code <= touched
    assert any(place[0] == "conf" for place in touched)


def test_a_snippet_that_stands_nowhere_or_twice_is_refused(fault: Fault) -> None:
    one, two = Path("one.py"), Path("two.py")
    assert locate(fault, {one: "if a < b:", two: "if b < a:"}) == one
    with pytest.raises(FaultError, match=r"wrong: its snippet stands in 0 places, and it must"):
        locate(fault, {one: "if b < a:"})
    with pytest.raises(FaultError, match=r"in 2 places: one\.py, two\.py, and"):
        locate(fault, {one: "if a < b:", two: "if a < b:"})
    with pytest.raises(FaultError, match=r"in 2 places: one\.py, one\.py, and"):
        locate(fault, {one: "a < b < a < b"})


def test_a_test_is_found_by_its_name_wherever_it_is(fault: Fault, tmp_path: Path) -> None:
    for place in ("tests/deep/down/test_one.py", "plugins/mine/tests/test_two.py"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("def test_it(x: int) -> None: ...\n")
    found = known_tests(tmp_path)
    nodes = ["tests/deep/down/test_one.py::test_it", "plugins/mine/tests/test_two.py::test_it"]
    assert nodes_of(fault, found) == nodes
    with pytest.raises(FaultError, match="wrong: there is no test function test_it"):
        nodes_of(fault, {})


def test_faults_are_chosen_by_name(fault: Fault) -> None:
    other = Fault("other", "a", "b", "Why.", ("test_it",))
    assert chosen([fault, other], []) == [fault, other]
    assert chosen([fault, other], ["other"]) == [other]
    with pytest.raises(FaultError, match="there is no fault another"):
        chosen([fault, other], ["another"])


@pytest.mark.parametrize(
    "text",
    [
        "find = 'a'\nreplace = 'b'\nwhy = 'c'\ntests = ['test_it']",
        "name = 'n'\nfind = 'a'\nreplace = 'b'\nwhy = 'c'\ntests = []",
        "name = 'n'\nfind = 'a'\nreplace = 1\nwhy = 'c'\ntests = ['test_it']",
        "name = 'n'\nfind = 'a'\nreplace = 'b'\nwhy = 'c'\ntests = ['test_it']\nfile = 'x'",
    ],
)
def test_an_entry_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    listed = tmp_path / "faults.toml"
    listed.write_text(f"[[fault]]\n{text}\n")
    with pytest.raises(FaultError, match="must have the texts name, find, replace, why"):
        read_faults(listed)


def test_two_faults_of_one_name_are_refused(tmp_path: Path) -> None:
    entry = "[[fault]]\nname = 'n'\nfind = 'a'\nreplace = 'b'\nwhy = 'c'\ntests = ['test_it']\n"
    listed = tmp_path / "faults.toml"
    listed.write_text(entry)
    assert [one.name for one in read_faults(listed)] == ["n"]
    listed.write_text(2 * entry)
    with pytest.raises(FaultError, match="n: each fault has a name of its own"):
        read_faults(listed)


def test_the_list_is_of_this_tree(sources: dict[Path, str]) -> None:
    assert (ROOT / "pyproject.toml").is_file()
    assert Path("dtsflow/__main__.py") in sources
    assert Path("conf/dtsflow.yaml") in sources
