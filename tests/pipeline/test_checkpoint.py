import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtsflow
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.errors import ConfigError
from dtsflow.pipeline import plan as plan_module
from dtsflow.pipeline.build import build
from dtsflow.pipeline.checkpoint import MAX_BYTES, State, state_at
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank, SingleProcess
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

CROP = {"_target_": "dtsflow.po.RandomResizedCrop", "size": 16}
FLIP = {"_target_": "dtsflow.po.RandomHorizontalFlip"}
FINGERPRINT = {"seed": "0123456789abcdef", "po": "fedcba9876543210"}


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(20, 24, seed=i), i % 4) for i in range(18)]
    return write_block_volume(
        workdir / "tiny_train_lv0.dts", [images[:7], images[7:12], images[12:]]
    )


def open_run(path: Path, *trees: dict[str, Any], **values: Any) -> Run:
    tree: dict[str, Any] = {
        "volume": {"path": str(path)},
        "po": {"operations": [CROP]},
        "station": {"timeout_s": 20},
        "reader": {"window_bytes": 1},
        "batch_size": 2,
        "lanes": 1,
        "workers": 2,
    }
    return dtsflow.open(tree, *trees, values)


def open_digits(path: Path, **values: Any) -> Run:
    return dtsflow.open({"volume": {"path": str(path)}, "batch_size": 4, "workers": 2, **values})


@pytest.fixture
def digits(workdir: Path) -> Path:
    return write_small_set(workdir / "mnist_train.dts", Kind.MNIST, 40)


def place(run: Run) -> tuple[int, int]:
    state = run.state()
    return state.epoch, state.step


def sequence(batches: Any, most: int | None = None) -> int:
    sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
    if most != 0:
        for done, batch in enumerate(batches, 1):
            sink.take(batch)
            if done == most:
                break
    return int(sink.results()["digest"]["sequence"], 16)


def saved(run: Run, path: Path) -> Path:
    path.write_text(run.state().to_json())
    return path


def test_a_state_survives_its_text() -> None:
    state = State("train", 3, 17, FINGERPRINT)
    assert State.from_json(state.to_json()) == state
    assert State.from_json(state.to_json().encode()) == state


def test_a_state_is_smaller_than_a_kilobyte(volume: Path) -> None:
    with open_run(volume) as run:
        state = replace(run.state(), phase="p" * 32, epoch=1 << 32, step=(1 << 32) - 1)
    text = state.to_json()
    assert len(text) < MAX_BYTES
    assert State.from_json(text) == state


GOOD = {"phase": "train", "epoch": 1, "step": 2, "fingerprint": FINGERPRINT}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 1000, "no JSON"),
        ("\x00\xff", "no JSON"),
        ("1" * 1025, "longer than 1024 bytes"),
        ("[]", "must hold phase, epoch, step, fingerprint"),
        ("null", "must hold"),
        (json.dumps({**GOOD, "more": 1}), "must hold"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "step"}), "must hold"),
        (json.dumps({**GOOD, "phase": "../x"}), "phase"),
        (json.dumps({**GOOD, "phase": 1}), "phase"),
        (json.dumps({**GOOD, "epoch": -1}), "epoch"),
        (json.dumps({**GOOD, "epoch": True}), "epoch"),
        (json.dumps({**GOOD, "epoch": 1 << 40}), "epoch"),
        (json.dumps({**GOOD, "step": 1.0}), "step"),
        (json.dumps({**GOOD, "step": "1"}), "step"),
        (json.dumps({**GOOD, "step": float("nan")}), "step"),
        (json.dumps({**GOOD, "fingerprint": []}), "fingerprint"),
        (json.dumps({**GOOD, "fingerprint": {"seed": "x"}}), "fingerprint"),
        (json.dumps({**GOOD, "fingerprint": {"seed": 1}}), "fingerprint"),
        (json.dumps({**GOOD, "fingerprint": {"s d": "0" * 16}}), "fingerprint"),
    ],
)
def test_what_is_no_state_is_refused_by_the_name_of_its_file(
    text: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=why) as refused:
        State.load(path)
    assert str(path) in str(refused.value)
    assert "resume=never" in str(refused.value)


@given(st.binary(max_size=1100))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        State.from_json(data)


@given(st.integers(0, 1023), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_state(place: int, change: int) -> None:
    data = bytearray(State("train", 3, 17, FINGERPRINT).to_json().encode())
    data[place % len(data)] ^= change
    try:
        state = State.from_json(bytes(data))
    except ConfigError:
        return
    assert State.from_json(state.to_json()) == state


def test_a_state_is_named_by_its_file_or_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state_at(str(tmp_path)) == path
    assert state_at(str(path)) == path
    for impossible in ("x" * 5000, "~no_such_user/x"):
        with pytest.raises(ConfigError, match="cannot be looked up"):
            state_at(impossible)
    with pytest.raises(ConfigError, match="there is no file"):
        State.load(path)


def test_a_state_says_at_any_time_where_the_run_goes_on(digits: Path) -> None:
    run = open_digits(digits)
    assert place(run) == (0, 0)
    run.epoch(3)  # nothing has begun yet
    assert place(run) == (0, 0)
    for batch in run.epoch(0):
        assert place(run) == ((0, batch.step + 1) if batch.step < 9 else (1, 0))
    assert place(run) == (1, 0)
    for _ in run.epoch(1, start_step=4):
        break
    assert place(run) == (1, 5)
    assert sum(1 for _ in run.epoch(1, start_step=5, steps=2)) == 2
    assert place(run) == (1, 7)
    assert list(run.epoch(1, start_step=10)) == []
    assert place(run) == (2, 0)
    run.close()
    assert place(run) == (2, 0)
    assert run.start == State("train", 0, 0, run.plan.fingerprint())


def fail_at(run: Run, step: int) -> None:
    with run:
        for batch in run.epoch(1):
            if batch.step == step:
                raise ZeroDivisionError


def test_a_batch_whose_use_failed_is_handed_out_again(digits: Path) -> None:
    run = open_digits(digits)
    with pytest.raises(ZeroDivisionError):
        fail_at(run, 3)
    assert place(run) == (1, 3)


class StoppedApart(SingleProcess):
    """Rank 0 of a run whose other rank came a step less far before the stop."""

    is_alone = False

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:  # noqa: ARG002
        told = json.loads(text or "null")
        if not (isinstance(told, dict) and "state" in told):
            return [text]
        state = json.loads(told["state"])
        state["step"] -= 1
        return [text, json.dumps({**told, "state": json.dumps(state)})]


def test_ranks_that_stop_apart_go_on_from_the_one_that_came_least_far(digits: Path) -> None:
    with open_digits(digits) as alone:
        plan = alone.plan
    with Run.open(plan, group=StoppedApart()) as run:
        for batch in run:
            if batch.step == 4:
                run.stop()
    assert run.state().step == 4  # rank 0 alone would have gone on from 5


def test_an_old_pass_does_not_move_the_place_of_the_new_one(digits: Path) -> None:
    with open_digits(digits) as run:
        old = iter(run.epoch(0))
        next(old)
        new = iter(run.epoch(5, start_step=2))
        next(new)
        with pytest.raises(dtsflow.errors.ClosedError):
            next(old)
        assert place(run) == (5, 3)


def test_a_run_is_iterated_as_it_is_configured(digits: Path) -> None:
    with open_digits(digits, epochs=3) as run:
        seen = [(batch.epoch, batch.step) for batch in run]
    assert seen == [(epoch, step) for epoch in range(3) for step in range(10)]
    with open_digits(digits, epochs=3, max_steps=13) as run:
        assert [(batch.epoch, batch.step) for batch in run] == seen[:13]
        path = saved(run, Path("saved.json"))
    with open_digits(digits, epochs=3, max_steps=9, resume=str(path)) as run:
        assert (run.start.epoch, run.start.step) == (1, 3)
        assert [len(batches) for batches in run.passes()] == [7, 2]
        assert [(batch.epoch, batch.step) for batch in run] == seen[13:22]
        assert run.report()["resumed_from"] == {"phase": "train", "epoch": 1, "step": 3}
    with open_digits(digits, epochs=1, resume=str(path)) as run:
        assert list(run) == []


def test_nothing_left_to_do_is_said(digits: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_digits(digits) as run:
        list(run)
        path = saved(run, Path("saved.json"))
        assert run.report()["resumed_from"] is None
    with open_digits(digits, resume=str(path)) as run:
        assert list(run) == []
    assert "nothing is left to do: the run goes on at epoch 1, step 0, and epochs=1" in caplog.text


@pytest.fixture
def forty(workdir: Path) -> Pipeline:
    """An epoch of 40 steps."""
    images = [(jpeg(8, 8, seed=i), i % 4) for i in range(80)]
    path = write_block_volume(workdir / "x.dts", [images[:30], images[30:45], images[45:]])
    values = {"volume": {"path": str(path)}, "po": {"operations": [CROP]}, "batch_size": 2}
    return build(compose(values=values).values)


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_stopped_at_every_step_and_gone_on_with_it_is_the_same_epoch(
    forty: Pipeline, mode: Literal["resident", "streaming"]
) -> None:
    def plan(workers: int, **reader: Any) -> Plan:
        phase = forty.phases["train"]
        phase = replace(phase, reader=replace(phase.reader, **reader))
        changed = replace(forty, workers=workers, phases={"train": phase})
        return plan_run(changed, Rank(0, 1))

    with Run.open(plan(2)) as run:
        assert len(run.epoch(0)) == 40
        whole = sequence(run)
    for step in range(41):
        with Run.open(plan(1 + step % 3)) as run:
            first = sequence(run, step)
            text = run.state().to_json()
        other = plan(3 - step % 3, mode=mode, io_threads=1 + step % 4)
        state = State.from_json(text)
        other.check_state(state, "")
        with Run.open(other, start=state) as run:
            assert place(run) == ((0, step) if step < 40 else (1, 0))
            assert (first + sequence(run)) % 2**256 == whole


def test_a_stopped_loop_ends_after_the_batch_in_hand(digits: Path) -> None:
    seen = []
    with open_digits(digits, epochs=3) as run:
        for batch in run:
            seen.append((batch.epoch, batch.step))
            if seen[-1] == (1, 4):
                run.stop()
        assert seen[-1] == (1, 4)
        assert place(run) == (1, 5)
        assert list(run) == []  # a stopped run stays stopped
        assert list(run.epoch(0)) == []
        assert list(run.epoch(0, start_step=10)) == []
        assert place(run) == (1, 5)


def test_a_run_that_was_stopped_with_its_last_batch_is_a_finished_one(digits: Path) -> None:
    with open_digits(digits, name="mine") as run:
        for batch in run:
            if batch.step == 9:
                run.stop()
        assert not run.stopping.ended
    assert Path("runs/mine/report.json").is_file()


REFUSALS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 1},
    "batch_size": {"batch_size": 3},
    "lanes": {"lanes": 2},
    "window_bytes": {"reader": {"window_bytes": 2 * BLOCK_BYTES}},
    "window_bytes, shuffle": {"reader": {"shuffle": "none"}},
    "tail": {"tail": "drop"},
    "decode": {"decode": {"orientation": "apply"}},
    "po": {"po": {"operations": [CROP, FLIP]}},
}


@pytest.mark.parametrize("names", REFUSALS)
def test_what_changed_is_refused_by_its_name(volume: Path, names: str) -> None:
    with open_run(volume) as run:
        path = saved(run, Path("saved.json"))
    with pytest.raises(ConfigError, match=rf"resume: saved.json .* another {names}: "):
        open_run(volume, REFUSALS[names], resume=str(path))


@pytest.mark.parametrize("key", ["scaled", "on_error"])
def test_other_decode_policies_are_refused_too(volume: Path, key: str) -> None:
    with open_run(volume) as run:
        path = saved(run, Path("saved.json"))
    value = {"scaled": True, "on_error": "mask"}[key]
    with pytest.raises(ConfigError, match="another decode: "):
        open_run(volume, {"decode": {key: value}}, resume=str(path))


def test_several_changes_are_named_together(volume: Path) -> None:
    with open_run(volume) as run:
        path = saved(run, Path("saved.json"))
    with pytest.raises(ConfigError, match=r"another seed, batch_size, tail: .*resume=never"):
        open_run(volume, seed=4, batch_size=6, tail="wrap", resume=str(path))


def test_another_data_set_or_algorithm_is_refused(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(volume) as run:
        path = saved(run, Path("saved.json"))
    other = write_block_volume(Path("other.dts"), [[(jpeg(seed=i), 0) for i in range(18)]])
    with pytest.raises(ConfigError, match="another data: "):
        open_run(other, resume=str(path))
    monkeypatch.setattr(plan_module, "ALGORITHM", plan_module.ALGORITHM + 1)
    with pytest.raises(ConfigError, match="another algorithm: "):
        open_run(volume, resume=str(path))


def test_what_only_another_version_knows_is_a_change(volume: Path) -> None:
    with open_run(volume) as run:
        state = run.state()
    newer = replace(state, fingerprint={**state.fingerprint, "mix": "0" * 16})
    Path("saved.json").write_text(newer.to_json())
    with pytest.raises(ConfigError, match="another mix: "):
        open_run(volume, resume="saved.json")


SAME: list[dict[str, Any]] = [
    {"workers": 3},
    {"reader": {"io_threads": 1}},
    {"reader": {"mode": "streaming"}},
    {"reader": {"mode": "resident"}},
    {"reader": {"window_bytes": BLOCK_BYTES + 7}},  # one block either way
    {"decode": {"_target_": "dtsflow.decode.Pillow"}},
    {"decode": {"max_errors": 3}},
    {"station": {"channel_align": 1, "poison": True}},
    {"epochs": 9, "max_steps": 3},
    {"memory": {"limit": 1 << 30}},
]


@pytest.mark.parametrize("values", SAME, ids=str)
def test_what_no_pixel_depends_on_may_change(volume: Path, values: dict[str, Any]) -> None:
    with open_run(volume) as run:
        next(iter(run))
        path = saved(run, Path("saved.json"))
    with open_run(volume, values, resume=str(path)) as run:
        assert (run.start.epoch, run.start.step) == (0, 1)


def test_a_data_set_may_move(volume: Path) -> None:
    with open_run(volume) as run:
        path = saved(run, Path("saved.json"))
    Path("elsewhere").mkdir()
    moved = Path(shutil.move(volume, "elsewhere/y.dts"))
    with open_run(moved, resume=str(path)) as run:
        assert place(run) == (0, 0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda state: replace(state, step=9), "step 9 of an epoch with 9"),
        (lambda state: replace(state, phase="val"), "no phase 'val'"),
    ],
)
def test_a_place_that_the_plan_does_not_have_is_refused(
    volume: Path, change: Callable[[State], State], why: str
) -> None:
    with open_run(volume) as run:
        Path("saved.json").write_text(change(run.state()).to_json())
    with pytest.raises(ConfigError, match=why):
        open_run(volume, resume="saved.json")


def test_a_run_without_a_name_cannot_go_on_by_itself(volume: Path) -> None:
    with pytest.raises(ConfigError, match=r"resume: auto .* without a name has none"):
        open_run(volume, resume="auto")


@pytest.mark.parametrize("resume", ["nowhere", "runs", "state.json/x"])
def test_a_state_that_is_not_there_is_refused_before_a_folder_is_made(
    volume: Path, resume: str
) -> None:
    with pytest.raises(ConfigError, match="resume: there is no file"):
        open_run(volume, resume=resume, name="mine")
    assert not Path("runs", "mine").exists()
