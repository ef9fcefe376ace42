from pathlib import Path

import pytest

from dtsflow.cli.multirun import expand
from dtsflow.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "jobs"),
    [
        (["seed=3"], [["seed=3"]]),
        ([], [[]]),
        (["seed=1,2"], [["seed=1"], ["seed=2"]]),
        (["seed=range(1,4)"], [["seed=1"], ["seed=2"], ["seed=3"]]),
        (["tail=choice(pad,drop)"], [["tail=pad"], ["tail=drop"]]),
        (["reader=glob(r*)"], [["reader=raw"], ["reader=resident"]]),
        (["reader=glob(*,exclude=[r*,a*])", "~consumer"], [["reader=streaming", "~consumer"]]),
        (["+experiment=mnist,quickstart"], [["+experiment=mnist"], ["+experiment=quickstart"]]),
        (
            ["po.operations[0].size=8,16"],
            [["po.operations[0].size=8"], ["po.operations[0].size=16"]],
        ),
        (["po.operations=[a,b]"], [["po.operations=[a,b]"]]),
        (["name='a,b'"], [["name='a,b'"]]),
        (["seed=1,2", "seed=5"], [["seed=5"]]),
    ],
)
def test_what_hydra_reads_as_several_values_is_several_jobs(
    overrides: list[str], jobs: list[list[str]], workdir: Path
) -> None:
    assert expand(overrides) == jobs
    assert workdir.is_dir()


def test_the_last_key_varies_fastest(workdir: Path) -> None:
    jobs = expand(["workers=1,2", "batch_size=8", "seed=1,2"])
    assert jobs == [
        [f"workers={workers}", "batch_size=8", f"seed={seed}"]
        for workers in (1, 2)
        for seed in (1, 2)
    ]
    assert workdir.is_dir()


def test_groups_of_ones_own_are_found(workdir: Path) -> None:
    (workdir / "mine" / "reader").mkdir(parents=True)
    (workdir / "mine" / "reader" / "zz.yaml").write_text("mode: auto\n")
    assert expand(["reader=glob(z*)"], workdir / "mine") == [["reader=zz"]]


def test_an_experiment_may_say_what_is_swept(workdir: Path) -> None:
    (workdir / "conf" / "experiment").mkdir(parents=True)
    (workdir / "conf" / "experiment" / "ours.yaml").write_text(
        "# @package _global_\nhydra: {sweeper: {params: {seed: '1,2', reader.io_threads: 3}}}\n"
    )
    sweep = [["+experiment=ours", f"seed={seed}", "reader.io_threads=3"] for seed in (1, 2)]
    assert expand(["+experiment=ours"]) == sweep
    assert expand(["+experiment=ours", "seed=9"]) == [
        ["+experiment=ours", "seed=9", "reader.io_threads=3"]
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=interval(0,1)", "lists no values. List them, as seed=1,2,3"),
        ("reader=glob(x*)", "no value at all"),
        ("seed=range(3,3)", "no value at all"),
        ("+experiment=quickstrat", "Did you mean 'quickstart'?"),
        ("hydra.job.name=1,2", "Hydra's own settings have no effect here"),
    ],
)
def test_what_lists_no_values_is_refused(override: str, message: str, workdir: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        expand([override])
    assert message in str(caught.value)
    assert workdir.is_dir()
