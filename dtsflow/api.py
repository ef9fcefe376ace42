"""dtsflow as a library: open a run from overrides, from a dict, or from both."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from dtsflow.config.compose import compose
from dtsflow.errors import ConfigError
from dtsflow.pipeline.checkpoint import State, state_at, states_beside
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.pipeline import AUTO, NEVER
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.run import Run
from dtsflow.pipeline.run_folder import RUNS, SCANS, RunFolder
from dtsflow.pipeline.startup import agree_on_folder, agree_on_plan, joined
from dtsflow.ranks.collective import agree, together
from dtsflow.ranks.failure import ending_all

Found = tuple[State, Path]  # a state, and the folder where it was


def open(*config: str | Mapping[str, Any], config_dir: str | Path | None = None) -> Run:  # noqa: A001
    """Plan and open a run; use it as `with dtsflow.open(…) as run: …`.

    Args:
        config: Overrides as on the command line, and trees to lay over the result:
            `dtsflow.open("+experiment=cifar10", {"volume": {"path": "cifar10.dts"}})`.
        config_dir: A folder of configs that is searched before `./conf` and our own.

    Raises:
        ConfigError: The configuration makes no sense, or `resume` cannot be done.
        PlanError: Its parts do not fit together.
        VolumeError: The data set is not what it should be.
    """
    laid_over: dict[str, Any] = {}
    for part in config:
        if isinstance(part, Mapping):
            laid_over = _merge(laid_over, _plain(part))
        elif not isinstance(part, str):
            raise ConfigError(f"{part!r} is neither an override, as 'seed=3', nor a dict.")
    overrides = [part for part in config if isinstance(part, str)]
    folder = None if config_dir is None else Path(config_dir)
    return start(compose(overrides, values=laid_over, config_dir=folder).values)


def start(values: Mapping[str, Any], *, command: str = "") -> Run:
    """Open the run that a composed tree describes; it has a folder if it has a name.

    All ranks of a run call it. Where one fails, all end.
    """
    pipeline, group = joined(values)
    name = pipeline.name
    with ending_all(group):
        plan = agree_on_plan(pipeline, group, cache=None if name is None else RUNS / SCANS)
        # Before the folder is made, for PATH may name a finished one, which then moves.
        begun, origin = together(group, partial(_named_state, plan))
        agree(group, {"resume": "never" if begun is None else str(plan.turn(begun))})
        if name is None:
            together(group, plan.check_memory)
            return Run.open(plan, None, begun, origin, group)
        folder, own = agree_on_folder(name, command, group, partial(_own_state, plan))
        if own is not None:
            begun, origin = own, folder.path
        try:
            if group.rank.index == 0:
                folder.write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(values))))
                folder.write("plan.txt", plan_text(plan))
            together(group, plan.check_memory)
            return Run.open(plan, folder, begun, origin, group)
        except BaseException:
            folder.close()
            raise


def _named_state(plan: Plan) -> Found | tuple[None, None]:
    """Return the state at the path that `resume` names, if any, and its folder."""
    resume = plan.pipeline.resume
    if resume == AUTO and plan.pipeline.name is None:
        raise ConfigError(
            "resume: auto goes on with a run folder, and a run without a name has none. Give it "
            "a name, or the path of a state."
        )
    return (None, None) if resume in (AUTO, NEVER) else _state(plan, state_at(resume))


def _own_state(plan: Plan, folder: RunFolder) -> State | None:
    """Return the state in the run's own folder, if `resume` means that one."""
    resume = plan.pipeline.resume
    if resume == NEVER or not folder.state.exists():
        return None
    if resume != AUTO and not folder.state.samefile(state_at(resume)):
        return None
    state, _ = _state(plan, folder.state)
    return state


def _state(plan: Plan, path: Path) -> Found:
    """Return where the rank that had come least far was: then no row is left out."""
    states = []
    for of_rank in states_beside(path):
        state = State.load(of_rank)
        plan.check_state(state, of_rank)
        states.append(state)
    return min(states, key=plan.turn), path.absolute().parent


def _plain(value: Any) -> Any:
    """`value` as YAML has it: paths as text, NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, PurePath) else value


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
