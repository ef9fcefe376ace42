"""A run over a mix of data sets delivers the rows of all of them, by their shares."""

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.run import stream
from dtsflow.config.compose import compose
from dtsflow.errors import BlockError, ConfigError, DecodeError, PlanError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.checkpoint import MAX_BYTES
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.testing import BlockSamples, damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, SMALL_AREA_BYTES, Kind

COUNTS = {"cats": [7, 3, 0, 9, 1], "dogs": [6, 8], "owls": [5]}
LEVELS = {"cats": 0, "dogs": 2, "owls": 0}
STORED = 39
NO_WEIGHTS: dict[str, float] = {}
WEIGHTS = {"cats": 0.2, "dogs": 0.3, "owls": 0.5}

Row = tuple[int, bytes]  # label and pixels


def blocks_of(name: str) -> list[BlockSamples]:
    seed = 1000 * (1 + [*COUNTS].index(name))
    return [
        [(jpeg(20 + (7 * b + i) % 9, 24, seed=seed + 100 * b + i), (b + i) % 3) for i in range(n)]
        for b, n in enumerate(COUNTS[name])
    ]


@pytest.fixture
def folder(workdir: Path) -> Path:
    for name, level in LEVELS.items():
        write_block_volume(workdir / f"{name}.dts", blocks_of(name), level=level)
    return workdir


def mix_of(folder: Path, weights: dict[str, float], *names: str) -> dict[str, Any]:
    return {
        name: {"volume": {"path": folder / f"{name}.dts"}, "weight": weights.get(name)}
        for name in names or COUNTS
    }


def config(mix: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "batch_size": 8,
        "lanes": 4,
        "epochs": 2,
        "workers": 2,
        "reader": {"window_bytes": 3 * 4 * 2 * BLOCK_BYTES, "mix": mix},
        "station": {"poison": True, "timeout_s": 20},
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12},
                {"_target_": "dtsflow.po.RandomHorizontalFlip"},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
    }
    return base | more


def rows_of(run: Run, epoch: int = 0, start_step: int = 0) -> list[tuple[int, Row]]:
    return [
        (int(batch.sample_ids[i]), (int(batch.labels[i]), batch.padded[i].tobytes()))
        for batch in run.epoch(epoch, start_step=start_step)
        for i in np.flatnonzero(batch.valid).tolist()
    ]


def rows(values: dict[str, Any], *words: str) -> list[tuple[int, Row]]:
    with dtsflow.open(values, *words) as run:
        return rows_of(run)


def digests(values: dict[str, Any], *words: str) -> Any:
    with dtsflow.open({**values, "consumer": "digest"}, *words) as run:
        stream(run)
        return run.results["digest"]["epochs"]


def plan_of(values: dict[str, Any], *words: str) -> Plan:
    with dtsflow.open(values, *words) as run:
        return run.plan


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("shuffle", ["none", "blocks"])
@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS])
def test_readers_workers_and_threads_deliver_the_same_mix(
    folder: Path, tail: str, shuffle: str, weights: dict[str, float]
) -> None:
    values = config(mix_of(folder, weights), tail=tail)
    words = (f"reader.shuffle={shuffle}",)
    wanted = digests(values, *words, "reader.mode=resident", "workers=1")
    for mode, (workers, threads) in itertools.product(("resident", "streaming"), ((1, 8), (8, 1))):
        more = (f"reader.mode={mode}", f"workers={workers}", f"reader.io_threads={threads}")
        assert digests(values, *words, *more) == wanted


@pytest.mark.parametrize("shuffle", ["none", "blocks", "full"])
def test_without_weights_an_epoch_has_each_sample_of_all_sources_once(
    folder: Path, shuffle: str
) -> None:
    wanted = {
        i: label
        for i, (_, label) in enumerate(s for name in COUNTS for b in blocks_of(name) for s in b)
    }
    with dtsflow.open(config(mix_of(folder, NO_WEIGHTS)), f"reader.shuffle={shuffle}") as run:
        for epoch in range(2):
            found = rows_of(run, epoch)
            assert len(found) == STORED
            assert {i: label for i, (label, _) in found} == wanted


def test_a_mix_of_one_source_delivers_what_its_volume_does(folder: Path) -> None:
    alone = config(None, volume={"path": folder / "cats.dts"})
    mix = config(mix_of(folder, NO_WEIGHTS, "cats"))
    assert digests(mix) == digests(alone)


def test_a_sample_of_the_first_source_has_the_pixels_it_has_alone(folder: Path) -> None:
    alone = dict(rows(config(None, volume={"path": folder / "cats.dts"})))
    mixed = dict(rows(config(mix_of(folder, NO_WEIGHTS))))
    assert {i: mixed[i] for i in alone} == alone


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_with_weights_a_sample_that_comes_again_is_drawn_for_anew(folder: Path, mode: str) -> None:
    values = config(mix_of(folder, WEIGHTS))
    found = rows(values, "reader.mix_samples=1000", f"reader.mode={mode}", "batch_size=40")
    assert len(found) == 1000
    times = Counter("cats" if i < 20 else "dogs" if i < 34 else "owls" for i, _ in found)
    assert times == {"cats": 200, "dogs": 300, "owls": 500}
    assert Counter(i for i, _ in found)[38] == 100
    labels = {label for i, (label, _) in found if i == 38}
    pixels = {pixels for i, (_, pixels) in found if i == 38}
    assert (len(labels), len(pixels) > 90) == (1, True)


@pytest.mark.parametrize("stop", [0, 2, 4])
def test_a_stopped_mix_goes_on_with_what_is_left(folder: Path, stop: int) -> None:
    values = config(mix_of(folder, WEIGHTS))
    with dtsflow.open(values) as run:
        wanted = rows_of(run, start_step=stop + 1)
        for batch in run.epoch(0):
            if batch.step == stop:
                Path("saved.json").write_text(run.state().to_json())
    assert Path("saved.json").stat().st_size < MAX_BYTES
    more = ("reader.mode=streaming", "workers=5", "resume=saved.json")
    with dtsflow.open(values, *more) as run:
        assert rows_of(run, start_step=stop + 1) == wanted


def test_another_mix_is_refused_by_its_name_and_the_same_one_is_not(folder: Path) -> None:
    with dtsflow.open(config(mix_of(folder, WEIGHTS))) as run:
        Path("saved.json").write_text(run.state().to_json())
    other = mix_of(folder, {"cats": 0.3, "dogs": 0.2, "owls": 0.5})
    with pytest.raises(ConfigError, match="state of a run with another mix: "):
        dtsflow.open(config(other, resume="saved.json"))
    with pytest.raises(ConfigError, match="state of a run with another mix: "):
        dtsflow.open(config(mix_of(folder, WEIGHTS), resume="saved.json"), "reader.mix_samples=40")
    renamed = dict(zip("xyz", mix_of(folder, WEIGHTS).values(), strict=True))
    dtsflow.open(config(renamed, resume="saved.json"), "reader.mix_samples=39").close()


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_set_may_be_mixed_with_itself(
    folder: Path, write_indexed: Callable[..., Path], *, is_indexed: bool
) -> None:
    if is_indexed:
        (folder / "owls.dts").unlink()
        write_indexed(folder / "owls.dts", blocks_of("owls"))
    owls = {"path": folder / "owls.dts"}
    values = config({"a": {"volume": owls}, "b": {"volume": owls}})
    found = dict(rows(values, "reader.verify=file"))
    assert sorted(found) == list(range(10))
    assert [found[i][0] for i in range(5)] == [found[5 + i][0] for i in range(5)]


def test_ranks_share_a_mix_between_them(folder: Path) -> None:
    values = compose(values=plain(config(mix_of(folder, NO_WEIGHTS)))).values
    plans = [plan_run(build(values), Rank(rank, 2)) for rank in range(2)]
    assert plans[0].digest() == plans[1].digest()
    found: list[int] = []
    for plan in plans:
        own = (
            plan.phases["train"]
            .order.epoch(0)
            .rows(0, plan.phases["train"].order.steps, plan.phases["train"].lanes)
        )
        found += own.ids[own.valid].tolist()
    assert sorted(found) == list(range(STORED))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, Path) else value


@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS])
@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_subset_is_one_of_all_sources_together(
    folder: Path, mode: str, weights: dict[str, float]
) -> None:
    ids = [0, 4, 12, 13, 20, 21, 27, 33, 35, 38]
    Path("ids.txt").write_text("\n".join(map(str, ids)))
    values = config(mix_of(folder, weights))
    found = rows(values, "+reader.subset.ids=ids.txt", f"reader.mode={mode}")
    assert len(found) == 10
    whole = dict(rows(config(mix_of(folder, NO_WEIGHTS))))
    first = dict(reversed(found))  # of each sample what came first
    assert {i: row == whole[i] for i, row in first.items()} == dict.fromkeys(first, True)
    assert sorted(first) == ids if not weights else set(first) < set(ids)


def test_a_source_with_a_weight_and_no_chosen_sample_is_refused(folder: Path) -> None:
    Path("ids.txt").write_text("3\n35\n")
    words = ("+reader.subset.ids=ids.txt",)
    assert len(rows(config(mix_of(folder, NO_WEIGHTS)), *words)) == 2
    with pytest.raises(PlanError, match=r"reader\.mix\.dogs has a weight, and reader\.subset"):
        dtsflow.open(config(mix_of(folder, WEIGHTS)), *words)


@pytest.mark.parametrize("weights", [NO_WEIGHTS, {"a": 0.75, "b": 0.25}])
def test_pixel_sets_of_one_image_size_are_mixed(workdir: Path, weights: dict[str, float]) -> None:
    for seed, (name, samples) in enumerate((("a", 30), ("b", 7))):
        write_small_set(workdir / f"{name}.dts", Kind.CIFAR10, samples, seed=seed)
    values = config(
        mix_of(workdir, weights, "a", "b"),
        po={"operations": [{"_target_": "dtsflow.po.Normalize", "preset": "none"}]},
    )
    values["po"]["operations"][0]["dtype"] = "UINT8"
    with dtsflow.open(values, "reader.mix_samples=60" if weights else "seed=0") as run:
        assert run.plan.reading["train"][0] == "resident"
        assert run.plan.phases["train"].order.shuffle.value == "full"
        found = rows_of(run)
    times = Counter(i for i, _ in found)
    assert sorted(times) == list(range(37))
    # 45 of 60 places for 30 samples, and 15 for 7.
    assert Counter(times[i] for i in range(30)) == ({1: 15, 2: 15} if weights else {1: 30})
    assert Counter(times[i] for i in range(30, 37)) == ({2: 6, 3: 1} if weights else {1: 7})
    for sample_id, (label, stored) in found:
        assert (label, stored) == pixel_row(workdir, sample_id)


def pixel_row(folder: Path, sample_id: int) -> Row:
    """Label and pixels as the file has them."""
    name, samples, own = ("a", 30, sample_id) if sample_id < 30 else ("b", 7, sample_id - 30)
    whole = (folder / f"{name}.dts").read_bytes()[SMALL_AREA_BYTES:]
    image = np.frombuffer(whole, np.uint8, 3072, samples + 3072 * own).reshape(32, 32, 3)
    return whole[own], image.tobytes()


def test_pixels_cannot_be_streamed_and_the_message_says_so(workdir: Path) -> None:
    for name in ("a", "b"):
        write_small_set(workdir / f"{name}.dts", Kind.MNIST, 5)
    with pytest.raises(PlanError, match="a set of pixels has no blocks"):
        dtsflow.open(
            config(mix_of(workdir, NO_WEIGHTS, "a", "b"), po="mnist"), "reader.mode=streaming"
        )


@pytest.mark.parametrize("on_error", ["replace", "mask"])
def test_a_bad_sample_that_comes_again_is_bad_again_whatever_the_reader(
    folder: Path, on_error: str
) -> None:
    ((first, second, third, _, fifth),) = blocks_of("owls")
    (folder / "owls.dts").unlink()
    write_block_volume(folder / "owls.dts", [[first, second, third, (b"no image", 2), fifth]])
    values = config(mix_of(folder, WEIGHTS), decode={"on_error": on_error})
    found = []
    for mode in ("resident", "streaming"):
        with dtsflow.open(values, f"reader.mode={mode}", "reader.mix_samples=50") as run:
            found.append(rows_of(run))
            bad = [(row.sample_id, row.substitute) for row in run.bad_samples]
        assert bad == [(37, 38 if on_error == "replace" else None)] * 5
    assert found[0] == found[1]
    assert len(found[0]) == (50 if on_error == "replace" else 45)
    if on_error == "replace":
        # Its own five draws and five in the place of the bad one, all different.
        assert len({pixels for i, (_, pixels) in found[0] if i == 38}) == 10
    with pytest.raises(DecodeError, match=r"owls\.dts block 0 sample 3 .*sample_id 37"):
        rows(config(mix_of(folder, WEIGHTS)))


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_damaged_block_of_a_source_does_not_touch_the_others(
    workdir: Path, write_indexed: Callable[..., Path], mode: str
) -> None:
    for name in COUNTS:
        write_indexed(workdir / f"{name}.dts", blocks_of(name))
    values, word = config(mix_of(workdir, NO_WEIGHTS)), f"reader.mode={mode}"
    whole = rows(values, word)
    damage(workdir / "owls.dts", 2 * BLOCK_BYTES - 1, b"x")
    with pytest.raises(BlockError, match=r"block 0 of .*owls\.dts is damaged"):
        rows(values, word)
    masked = rows({**values, "decode": {"on_error": "mask"}}, word)
    assert masked == [row for row in whole if row[0] < 34]
    # Of the owls none is left: the next block is the first one of the mix.
    replaced = rows({**values, "decode": {"on_error": "replace"}}, word)
    assert [i for i, _ in replaced] == [i if i < 34 else 0 for i, _ in whole]


def test_the_plan_says_what_is_mixed_and_how(folder: Path) -> None:
    page = plan_text(plan_of(config(mix_of(folder, WEIGHTS)), "reader.mix_samples=1234"))
    assert "  39 samples, 3 classes, 7 blocks\n" in page
    assert "  mix: cats, 20 samples, 200 of 1,000 places\n" in page
    assert "  an epoch has 1,234 samples\n" in page
    page = plan_text(plan_of(config(mix_of(folder, NO_WEIGHTS))))
    assert "  mix: owls, 5 samples\n" in page
    assert "windows of up to 2 blocks" in page  # six blocks a lane, for three sources


def test_windows_of_all_sources_are_planned(folder: Path) -> None:
    values = config(mix_of(folder, NO_WEIGHTS))
    plan = plan_of(values, "reader.mode=streaming")
    # Two for each lane: of the cats' four blocks one and then two at a time, of the
    # dogs' two and the owls' one always one.
    slots = 2 * 4 * (2 + 1 + 1)
    assert plan.memory_entries["streaming windows"] == slots * BLOCK_BYTES


REFUSALS = {
    "cats has a weight and dogs, owls has none": {"cats": 0.5},
    r"weights 0\.2 \+ 0\.3 \+ 0\.4 are 0\.9, and must be 1": {**WEIGHTS, "owls": 0.4},
    r"mix\.owls\.weight=0\.33333 is no whole thousandth": {**WEIGHTS, "owls": 0.33333},
    r"mix\.owls\.weight=0\.0004 is no whole thousandth": {**WEIGHTS, "owls": 0.0004},
    r"reader\.mix\.owls\.weight: .* greater than 0": {**WEIGHTS, "owls": 0.0},
    r"reader\.mix\.owls\.weight: .* less than or equal to 1": {**WEIGHTS, "owls": 1.5},
}


@pytest.mark.parametrize("message", REFUSALS)
def test_weights_that_make_no_whole_are_refused_with_their_numbers(
    folder: Path, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dtsflow.open(config(mix_of(folder, REFUSALS[message])))


@pytest.mark.parametrize("weight", [0.29, 0.57, 0.001, 0.999, 0.1, 0.7])
def test_thousandths_are_read_as_they_are_written(folder: Path, weight: float) -> None:
    weights = {"cats": weight, "dogs": round(1 - weight, 3)}
    plan = plan_of(config(mix_of(folder, weights, *weights)))
    assert plan.phases["train"].order.mixing is not None
    assert plan.phases["train"].order.mixing.weights == (
        round(1000 * weight),
        1000 - round(1000 * weight),
    )


def test_what_a_mix_cannot_be_is_refused(folder: Path) -> None:
    mix = mix_of(folder, NO_WEIGHTS)
    with pytest.raises(ConfigError, match="mix_samples=9 needs weights"):
        dtsflow.open(config(mix), "reader.mix_samples=9")
    with pytest.raises(ConfigError, match="cats, dogs, owls, and volume another one"):
        dtsflow.open(config(mix, volume={"path": folder / "cats.dts"}))
    with pytest.raises(ConfigError, match="volume: there is no data set"):
        dtsflow.open({**config(None), "volume": None})
    with pytest.raises(ConfigError, match=r"volume\.path has no value yet"):
        dtsflow.open(config(None))
    with pytest.raises(ConfigError, match=r"reader\.mix: .* at least 1 item"):
        dtsflow.open(config({}))
    with pytest.raises(ConfigError, match=r"reader\.mix\.cats"):
        dtsflow.open(config({"cats": {"volume": {"path": "x"}, "wight": 1.0}}))


def test_a_source_may_be_any_source(workdir: Path) -> None:
    made = {"_target_": "dtsflow.volume.Synthetic", "path": workdir / "made", "images": 6}
    mix = {"one": {"volume": made}, "two": {"volume": {**made, "path": workdir / "more"}}}
    assert len(rows(config(mix))) == 12
