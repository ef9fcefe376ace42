"""Names that configurations, plugins and programs of our users have in them."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dtsflow.config.compose import compose
from dtsflow.config.configurable import resolve_target
from dtsflow.errors import MissingPartError

Tree = dict[str, Any]

ROOT = Path(__file__).parents[1]

# What documentation and the plugins of the tutorials import, or the templates of
# `dtsflow new-plugin` do. More may come; none of these may go.
IMPORTS = {
    "dtsflow": "open volume __version__",
    "dtsflow.cli.main": "main",
    "dtsflow.errors": "ConfigError PlanError VolumeError DecodeError",
    "dtsflow.interop.dlpack": "Bfloat16",
    "dtsflow.interop.jax": "batches",
    "dtsflow.interop.torch": "Loader VolumeDataset",
    "dtsflow.plugin": (
        "NOTHING Arrays Batch Column ConfigError Consumer DType Decode DecodeError Decoder Draws "
        "Encoded Facts Field Holding Image ImageList ImageLoader ImageSpec IndexedRecords Learner "
        "Loader Measured Operation Params Parser Parsing PartFiles Pixels PlanError "
        "RecordOperation RecordReader Records Row Setting Sink Sizes Split Step StreamedRecords "
        "Telling VolumeError configurable folder_at read_classes"
    ),
    "dtsflow.ranks.failure": "ending_all",
    "dtsflow.testing": (
        "BlockSamples check_consumer check_decoder check_image_loader check_loader "
        "check_operation check_parser check_record_operation damage jpeg record_batch "
        "write_block_set write_block_volume write_small_set"
    ),
    "dtsflow.volume": (
        "Choice Dts Encoding Layout Packing Raw SourceFormat Synthetic estimate export open pack "
        "repair scan verify write_photos"
    ),
}

# What a configuration may name; more may come.
TARGETS = {
    "dtsflow.arena": "Device Host",
    "dtsflow.consumer": "Count Digest Digits LinearFit Sheet Softmax Train",
    "dtsflow.decode": "Auto Parse Pillow",
    "dtsflow.memory": "Budget Declared Form PlanConfig",
    "dtsflow.pipeline": "Pipeline",
    "dtsflow.po": (
        "CenterCrop Chain ColorJitter CutMix DoNothing FastRandomResizedCrop GaussianBlur "
        "GaussianNoise Mixup Normalize Pad RandAugment RandomAffine RandomAutocontrast RandomCrop "
        "RandomErasing RandomGrayscale RandomHorizontalFlip RandomResizedCrop RandomRotation "
        "RandomScale RandomVerticalFlip RecordChain Resize Schedule TrivialAugmentWide"
    ),
    "dtsflow.ranks": "Auto Env Mpi Single",
    "dtsflow.reader": "Reader Subset",
    "dtsflow.station": "Station",
    "dtsflow.volume": "Dts Raw Synthetic",
}

KINDS = {"*.md", "*.yaml", "*.yaml.in", "*.py", "*.py.in", "*.md.in"}
PLACES = ("README.md", "conf", "docs", "plugins", "benchmarks", "dtsflow/cli/templates")
_TARGET = re.compile(r"""_target_["']?\s*:\s*["']?([\w.]*\w)(?![\w.]*@)""")
_IMPORT = re.compile(r"^\s*from (dtsflow[\w.]*) import ([\w, ]+)", re.MULTILINE)


def written() -> Iterator[tuple[Path, str]]:
    """All that users read or copy, as text."""
    for place in PLACES:
        path = ROOT / place
        assert path.exists()
        for file in sorted({one for kind in KINDS for one in path.rglob(kind)} or {path}):
            yield file, file.read_text(encoding="utf-8")


def found_by(pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    return sorted({found.groups() for _, text in written() for found in pattern.finditer(text)})


NAMED = [target for (target,) in found_by(_TARGET)]


def test_the_search_finds_targets_of_each_place() -> None:
    """Else the tests below would prove nothing."""
    found = {
        file.relative_to(ROOT).parts[0]: target
        for file, text in written()
        for target in _TARGET.findall(text)
    }
    assert set(found) == {"README.md", "conf", "docs", "plugins", "benchmarks", "dtsflow"}
    assert {"dtsflow.pipeline.Pipeline", "dtsflow_mini_csv.MiniReader", "dtsflow.po.Schedule"} <= {
        *NAMED
    }


@pytest.mark.parametrize("target", NAMED)
def test_every_target_that_is_written_somewhere_is_found(target: str) -> None:
    package = target.partition(".")[0]
    if package != "dtsflow":
        pytest.importorskip(package, reason=f"the plugin {package} is not installed")
    assert resolve_target(target, "here").__name__ == target.rpartition(".")[2]


@pytest.mark.parametrize("module", TARGETS)
def test_every_target_that_a_configuration_may_have_is_found(module: str) -> None:
    for name in TARGETS[module].split():
        assert resolve_target(f"{module}.{name}", "here").__name__ == name


def names_of(module: str) -> set[str]:
    """What can be imported of a module, also where its framework is not installed."""
    try:
        found = import_module(module)
    except MissingPartError:
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        lines = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    else:  # `__all__` has what is imported when it is first asked for
        names = {*dir(found), *getattr(found, "__all__", ())}
        return {name for name in names if hasattr(found, name)}
    defined = {one.name for one in lines if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    taken = [name.name for one in lines if isinstance(one, ast.ImportFrom) for name in one.names]
    return defined | set(taken)


@pytest.mark.parametrize("module", IMPORTS)
def test_what_users_import_is_there(module: str) -> None:
    assert set(IMPORTS[module].split()) <= names_of(module)


def test_every_import_that_is_written_somewhere_works() -> None:
    pairs = found_by(_IMPORT)
    assert len(pairs) > 20
    for module, names in pairs:
        for name in names.replace(",", " ").split():
            assert name in names_of(module), f"{module} has no {name}"


# What a configuration is without a word of the user; keys may be added, with a default
# that changes nothing.
DEFAULTS: Tree = {
    "_target_": "dtsflow.pipeline.Pipeline",
    "volume": {"_target_": "dtsflow.volume.Dts", "path": "FILE"},
    "reader": {
        "_target_": "dtsflow.reader.Reader",
        "mode": "auto",
        "shuffle": "blocks",
        "window_bytes": 536870912,
        "verify": "block",
        "io_threads": 4,
        "io_retries": 3,
        "subset": {"ids": None, "classes": None, "fraction": None, "limit": None},
        "order_from": None,
        "mix": None,
        "mix_samples": None,
    },
    "decode": {
        "_target_": "dtsflow.decode.Auto",
        "orientation": "ignore",
        "scaled": False,
        "on_error": "raise",
        "max_errors": None,
        "sdmp_factor": 1,
        "cpvs": False,
        "store_bytes": "auto",
    },
    "po": {"_target_": "dtsflow.po.Chain", "operations": []},
    "station": {
        "_target_": "dtsflow.station.Station",
        "channel_align": 4,
        "timeout_s": 300,
        "poison": False,
    },
    "arena": {"_target_": "dtsflow.arena.Host"},
    "consumer": {"_target_": "dtsflow.consumer.Count"},
    "ranks": {"_target_": "dtsflow.ranks.Auto", "timeout_s": 600, "simulate": None, "per_node": 8},
    "memory": {
        "_target_": "dtsflow.memory.Budget",
        "limit": "auto",
        "tensors": [],
        "plan_config": None,
    },
    "name": None,
    "seed": 0,
    "epochs": 1,
    "batch_size": 256,
    "workers": "auto",
    "lanes": "auto",
    "tail": "pad",
    "phases": {},
    "max_steps": None,
    "resume": "never",
}

# By group the options that a configuration may choose; more may come.
OPTIONS = {
    "arena": "device host",
    "consumer": "count digest sheet softmax train",
    "decode": "auto pillow",
    "experiment": "cifar10 cifar100 image_folder imagenet imagenet_train imagenet_val mnist "
    "mnist_train quickstart speed",
    "memory": "default",
    "po": "cifar_train cifar_val imagenet_randaugment imagenet_train imagenet_val "
    "imagenet_vgg mnist mnist_augmented none",
    "ranks": "auto env mpi single",
    "reader": "auto raw resident streaming",
    "station": "default",
    "volume": "dts raw synthetic",
}


def test_all_keys_are_there_with_the_values_that_they_always_had() -> None:
    values = compose(["volume.path=FILE"]).values
    assert overlaid(values, DEFAULTS) == values


def overlaid(values: Tree, others: Tree) -> Tree:
    """`values` with `others` in place of theirs, node by node."""
    return {
        **values,
        **{
            key: overlaid(values.get(key) or {}, one) if isinstance(one, dict) and one else one
            for key, one in others.items()
        },
    }


@pytest.mark.parametrize("group", OPTIONS)
def test_the_options_of_a_group_stay(group: str) -> None:
    found = {file.stem for file in (ROOT / "conf" / group).glob("*.yaml")}
    assert set(OPTIONS[group].split()) <= found
