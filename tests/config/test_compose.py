import subprocess
import sys
import threading
from pathlib import Path

import hydra
import pytest
from shared_composition import shared

import dtsflow.config.compose
from dtsflow.config.compose import compose, config_folders, shipped_conf
from dtsflow.errors import ConfigError


@pytest.fixture(autouse=True)
def _by_hydra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose everything anew here, by Hydra itself."""
    monkeypatch.setattr(dtsflow.config.compose, "hydra_compose", hydra.compose)


EXPERIMENTS = sorted(file.stem for file in (shipped_conf() / "experiment").glob("*.yaml"))
CHOSEN = ("po=imagenet_val", "seed=3", "reader=streaming", "+reader.mix_samples=9", "~tail")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_tests_share_is_what_hydra_composes(
    monkeypatch: pytest.MonkeyPatch, experiment: str
) -> None:
    lists = [[f"+experiment={experiment}", *CHOSEN[:count]] for count in range(len(CHOSEN) + 1)]
    wanted = [compose(words) for words in lists]
    monkeypatch.setattr(dtsflow.config.compose, "hydra_compose", shared(config_folders()))
    assert [compose(words) for words in (*lists, *lists)] == [*wanted, *wanted]


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        compose(overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_experiment_is_named_and_laid_over_the_defaults() -> None:
    composed = compose(["+experiment=imagenet_train", "volume.path=a.dts"])
    assert composed.experiment == "imagenet_train"
    assert composed.values["tail"] == "drop"
    assert composed.values["volume"]["path"] == "a.dts"
    assert compose().experiment is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("batchsize=3", "batchsize: there is no such key. Did you mean 'batch_size'?"),
        ("reader.shufle=none", "reader.shufle: there is no such key. Did you mean 'shuffle'?"),
        ("redaer.shuffle=none", "redaer.shuffle: there is no such key."),
        ("+experiment=imagenet_trian", "experiment=imagenet_trian: there is no such option. Did"),
        ("po=imgnet_train", "po=imgnet_train: there is no such option. Did you mean 'imagenet_"),
        ("experiment=mnist", "experiment: add it with a plus sign, as +experiment=NAME."),
        ("seed=[1", ""),
    ],
)
def test_wrong_names_get_one_line_with_the_nearest_valid_name(override: str, message: str) -> None:
    assert message in refusal(override)


def test_a_tree_is_laid_over_and_a_name_chooses_an_option() -> None:
    tree = {"experiment": "cifar10", "volume": {"path": "c.dts"}, "po": "none", "seed": 4}
    composed = compose(values=tree)
    assert composed.experiment == "cifar10"
    assert composed.values["po"]["operations"] == []
    assert composed.values["seed"] == 4
    assert composed.values["batch_size"] == 512


def test_one_entry_of_a_list_can_be_changed() -> None:
    chosen = ["po=imagenet_train", "po.operations.0.size=160", "po.operations[0].scale=[0.5,1]"]
    first = compose(chosen).values["po"]["operations"][0]
    assert first == {
        "_target_": "dtsflow.po.RandomResizedCrop",
        "size": 160,
        "scale": [0.5, 1],
    }
    for key in ("po.operations.7.size", "reader.3.x", "seed[0].x", "po.operations.3"):
        assert f"{key}: there is no such entry" in refusal("po=imagenet_train", f"{key}=1")


def test_what_was_composed_composes_to_itself() -> None:
    first = compose(["+experiment=imagenet_val", "volume.path=a.dts"]).values
    assert compose(values=first).values == first


def test_local_and_given_folders_come_before_the_shipped_one(
    workdir: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    extra = tmp_path_factory.mktemp("extra")
    assert config_folders()[-1] == shipped_conf()  # plugins may be installed
    assert workdir / "conf" not in config_folders()
    for folder, seed in ((workdir / "conf", 1), (extra, 2)):
        (folder / "experiment").mkdir(parents=True)
        for name in ("mine", f"mine{seed}"):
            text = f"# @package _global_\nseed: {seed}\n"
            (folder / "experiment" / f"{name}.yaml").write_text(text)
    assert compose(["+experiment=mine"]).values["seed"] == 1
    assert compose(["+experiment=mine"], config_dir=extra).values["seed"] == 2
    assert compose(["+experiment=mine1"], config_dir=extra).values["seed"] == 1
    assert compose(["+experiment=mnist"], config_dir=extra).experiment == "mnist"


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config-dir: .*absent is not a folder"):
        compose(config_dir=tmp_path / "absent")


def test_many_threads_can_compose_at_once() -> None:
    found: list[int] = []

    def work(seed: int) -> None:
        found.append(compose([f"seed={seed}"]).values["seed"])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(6))


APP = """
import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra import version

@hydra.main(version_base="1.1", config_path=None)
def app(cfg):
    from dtsflow.config.compose import compose
    outer = GlobalHydra.instance().hydra
    assert compose(["+experiment=mnist"]).experiment == "mnist"
    assert GlobalHydra.instance().hydra is outer
    assert str(version.getbase()) == "1.1"
    print("composed inside")

app()
"""


def test_a_hydra_app_around_us_is_left_as_it_was(workdir: Path) -> None:
    (workdir / "app.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "app.py", "hydra.run.dir=."], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "composed inside", done.stderr
