import pickle
from pathlib import Path
from typing import Any

import pytest

from dtsflow.config.compose import compose
from dtsflow.errors import ConfigError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.po import RandomHorizontalFlip, RandomResizedCrop
from dtsflow.reader.order import Tail

PATH = ("volume.path=x.dts",)


def values_of(*overrides: str) -> dict[str, Any]:
    return compose([*PATH, *overrides]).values


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        build(values_of(*overrides))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_defaults_make_a_pipeline_of_frozen_values() -> None:
    pipeline = build(values_of("+experiment=imagenet_train"))
    assert isinstance(pipeline, Pipeline)
    assert pipeline.phases["train"].tail is Tail.DROP
    assert isinstance(pipeline.phases["train"].po.operations[0], RandomResizedCrop)
    assert isinstance(pipeline.phases["train"].po.operations[1], RandomHorizontalFlip)
    with pytest.raises(AttributeError):
        pipeline.seed = 3  # type: ignore[misc]  # that it is refused is the point
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=-1", "seed: Input should be greater than or equal to 0 (got -1)"),
        ("seed=18446744073709551616", "seed: Input should be less than 18446744073709551616"),
        ("batch_size=0", "batch_size: Input should be greater than or equal to 1 (got 0)"),
        ("epochs=many", "epochs: Input should be a valid integer"),
        ("tail=keep", "tail: Input should be 'pad', 'drop' or 'wrap' (got 'keep')"),
        ("workers=fast", "workers: "),
        (
            "reader.shuffle=all",
            "reader.shuffle: Input should be 'none', 'windows', 'blocks' or 'full'",
        ),
        ("reader.io_threads=0", "reader.io_threads: Input should be greater than or equal to 1"),
        ("station.channel_align=3", "station.channel_align: Input should be 1 or 4 (got 3)"),
        ("station.timeout_s=0", "station.timeout_s: Input should be greater than 0"),
        ("decode.orientation=turn", "decode.orientation: Input should be 'ignore' or 'apply'"),
        ("decode.on_error=skip", "decode.on_error: Input should be 'raise', 'replace' or 'mask'"),
        ("decode.max_errors=-1", "decode.max_errors: Input should be greater than or equal to 0"),
        ("name=''", "name: String should have at least 1 character"),
        ("volume=synthetic", "volume.path"),
    ],
)
def test_values_that_make_no_sense_are_named_by_their_path(override: str, message: str) -> None:
    if override == "volume=synthetic":
        override = "~volume.path"
    assert message in refusal(override)


def test_the_place_in_a_list_is_named_as_people_write_it() -> None:
    for override in ("po.operations.1.p=2", "po.operations[1].p=2"):
        told = refusal("po=imagenet_train", override)
        assert told.startswith("po.operations[1].p: ")
        assert "got 2" in told


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+reader.shufle=none", "reader.shufle: Reader has no such key. Did you mean 'shuffle'?"),
        (
            "+batchsize=3",
            "batchsize: the configuration has no such key. Did you mean 'batch_size'?",
        ),
        ("+station.zones=3", "station.zones: Station has no such key. Valid names: "),
        ("+reader._partial_=true", "reader._partial_: Reader has no such key."),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest_valid_name(override: str, message: str) -> None:
    assert message in refusal(override)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "logging.os.system",
        "builtins.eval",
        "subprocess.Popen",
        "dtsflow.po.geometry.Image",
        "dtsflow.config.compose.OmegaConf",
        "dtsflow.no.such.Thing",
        "dtsflow.po.RandomResizedCorp",
        "dtsflow",
        "",
    ],
)
def test_only_configurable_classes_may_be_named(target: str) -> None:
    told = refusal(f"reader._target_='{target}'")
    assert told.startswith("reader._target_: ")


def test_a_misspelt_class_gets_the_nearest_one() -> None:
    assert "Did you mean 'Reader'?" in refusal("reader._target_=dtsflow.reader.Reder")


def test_a_class_of_another_stage_is_refused() -> None:
    assert "an instance of Reader" in refusal(
        "reader._target_=dtsflow.arena.Host",
        "~reader.mode",
        "~reader.verify",
        "~reader.io_retries",
        "~reader.shuffle",
        "~reader.window_bytes",
        "~reader.io_threads",
        "~reader.subset",
        "reader.order_from=x",  # what is null cannot be deleted
        "~reader.order_from",
        "reader.mix=0",  # what is null cannot be deleted
        "~reader.mix",
        "reader.mix_samples=0",
        "~reader.mix_samples",
    )


def test_an_operation_that_is_none_is_refused_by_its_place() -> None:
    assert "po.operations[0]" in refusal("po.operations=[{_target_: dtsflow.arena.Host}]")


def test_a_value_that_must_be_given_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"volume\.path has no value yet.*volume\.path=VALUE"):
        build(compose().values)


def test_a_refused_combination_inside_a_class_keeps_its_path() -> None:
    told = refusal("po=mnist", "po.operations.0.preset=null")
    assert told.startswith("po.operations[0]")
    assert "preset" in told


def test_building_opens_allocates_and_starts_nothing(tmp_path: Path) -> None:
    absent = tmp_path / "absent.dts"
    assert build(values_of(f"volume.path={absent}")).phases["train"].volume is not None
