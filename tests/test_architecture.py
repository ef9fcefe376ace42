"""The layout rules of docs/design.md section 2, held against the code."""

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from dtsflow.config.compose import compose, shipped_conf
from dtsflow.pipeline.build import build
from dtsflow.pipeline.phase import Phase
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

PACKAGE = Path(__file__).parents[1] / "dtsflow"
VOCABULARY = {
    "errors", "config", "spec", "seed", "tensor", "memory", "ranks", "native",
}  # fmt: skip
ASSEMBLY = {
    "__init__", "__main__", "_version", "api", "cli", "interop", "pipeline", "plugin",
    "plugins_installed", "report", "testing",
}  # fmt: skip
STAGES = ["volume", "reader", "decode", "po", "station", "arena", "consumer"]
RIM = {
    "cupy": "arena/device.py",
    "jax": "interop/jax.py",
    "mpi4py": "ranks/mpi.py",
    "torch": "interop/torch/",
    "turbojpeg": "decode/turbojpeg.py",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


@cache
def imports(module: Path) -> set[str]:
    """Full names of what `module` imports, names imported from modules included."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_stages_are_the_fields_of_the_pipeline_in_flow_order() -> None:
    own = [field.name for field in fields(Phase)]
    shared = [field.name for field in fields(Pipeline) if field.name != "phases"]
    assert [name for name in (*own, *shared) if name in STAGES] == STAGES
    assert all((PACKAGE / stage / "__init__.py").is_file() for stage in STAGES)


def test_config_groups_are_the_stages_and_three_more() -> None:
    groups = {entry.name for entry in shipped_conf().iterdir() if entry.is_dir()}
    assert groups == {*STAGES, "ranks", "memory", "experiment"}


def test_every_part_of_the_package_has_its_place_in_the_rule() -> None:
    assert {part_of(module) for module in MODULES} == VOCABULARY | ASSEMBLY | set(STAGES)


def test_imports_point_left() -> None:
    wrong = []
    for module in MODULES:
        part = part_of(module)
        if part in ASSEMBLY:
            continue
        left = STAGES[: STAGES.index(part) + 1] if part in STAGES else []
        reached = {name.split(".")[1] for name in imports(module) if name.startswith("dtsflow.")}
        wrong += [(module, part) for part in sorted(reached - VOCABULARY - set(left))]
    assert wrong == [], "each module reaches to the right, to that part"


def test_hardware_stays_at_the_rim() -> None:
    wrong = []
    for module in MODULES:
        where = module.relative_to(PACKAGE).as_posix()
        libraries = {name.split(".")[0] for name in imports(module)} & RIM.keys()
        wrong += [(where, library) for library in libraries if not where.startswith(RIM[library])]
    assert wrong == []


def test_nothing_evaluates_text_and_only_the_command_line_prints() -> None:
    wrong = []
    for module in MODULES:
        nodes = ast.walk(tree_of(module))
        calls = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        refused = {"eval", "exec"} if part_of(module) == "cli" else {"eval", "exec", "print"}
        wrong += [(module, name) for name in sorted(calls & refused)]
    assert wrong == []


def test_only_build_instantiates() -> None:
    callers = [m.name for m in MODULES if "hydra.utils.instantiate" in imports(m)]
    assert callers == ["build.py"]


OPTIONS = sorted(
    (group.name, file.stem)
    for group in shipped_conf().iterdir()
    if group.is_dir() and group.name != "experiment"
    for file in group.glob("*.yaml")
)
EXPERIMENTS = sorted(file.stem for file in (shipped_conf() / "experiment").glob("*.yaml"))
NEEDS = {
    "mnist": Kind.MNIST,
    "mnist_augmented": Kind.MNIST,
    "cifar_train": Kind.CIFAR10,
    "cifar_val": Kind.CIFAR10,
}
KIND_OF = {
    "mnist": Kind.MNIST,
    "mnist_train": Kind.MNIST,
    "cifar10": Kind.CIFAR10,
    "cifar100": Kind.CIFAR100,
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_block_volume(tmp_path / "images.dts", [[(jpeg(seed=i), i % 3) for i in range(5)]])
    for kind in (Kind.MNIST, Kind.CIFAR10, Kind.CIFAR100):
        write_small_set(tmp_path / f"{kind.value}.dts", kind, 20)
    return tmp_path


def plans(*overrides: str) -> None:
    pipeline = build(compose(overrides).values)
    pipeline.prepare()
    plan = plan_run(pipeline, Rank(0, 1))
    assert all(phase.order.steps >= 1 for phase in plan.phases.values())


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_builds_and_plans(group: str, option: str, data: Path) -> None:
    kind = NEEDS.get(option)
    path = data / f"{kind.value if kind else 'images'}.dts"
    overrides = ["po=imagenet_train", f"{group}={option}", f"volume.path={path}", "batch_size=4"]
    if option == "none":  # without an operation, only sets of one image size make a batch
        overrides[2] = f"volume.path={data / 'CIFAR10.dts'}"
    if option == "raw":
        (data / "raw" / "one").mkdir(parents=True)
        (data / "raw" / "one" / "a.jpg").write_bytes(jpeg())
        overrides[1:3] = ["reader=raw", "volume=raw", f"volume.path={data / 'raw'}"]
    if option == "synthetic":
        overrides[2] = f"volume.path={data / 'made'}"
        overrides += ["volume.images=6", "volume.classes=2"]
    plans(*overrides)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_plans_and_is_a_short_diff(experiment: str, data: Path) -> None:
    file = shipped_conf() / "experiment" / f"{experiment}.yaml"
    assert len(file.read_text().splitlines()) < 15
    kind = KIND_OF.get(experiment)
    path = data / (f"{kind.value if kind else 'images'}.dts")
    overrides = [f"+experiment={experiment}", "tail=pad", f"volume.path={path}"]
    if "phases:" in file.read_text():
        overrides[1] = f"phases.val.volume.path={path}"
        overrides.append("batch_size=4")
    if "synthetic" in file.read_text():
        overrides = [overrides[0], f"volume.path={data / 'made'}", "volume.images=6"]
    plans(*overrides)
