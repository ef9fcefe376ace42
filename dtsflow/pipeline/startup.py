"""The start of a run: ranks agree on one plan, one folder and one place to begin."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dtsflow.errors import ConfigError, DtsflowError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.checkpoint import STATE, State
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run_folder import RunFolder, run_path
from dtsflow.ranks.collective import agree, together
from dtsflow.ranks.config import Auto
from dtsflow.ranks.failure import ending_all
from dtsflow.ranks.group import Group, broadcast


def joined(values: Mapping[str, Any]) -> tuple[Pipeline, Group]:
    """Return the pipeline of a composed tree, and the ranks that have built it.

    Raises:
        ConfigError: The configuration is refused.
        CommonError: It is refused on some ranks; on every rank.
    """
    try:
        pipeline = build(values)
    except ConfigError as error:
        group = _group_of(values)
        if group is None:
            raise
        with ending_all(group):
            together(group, partial(_raise, error))
        raise
    group = pipeline.ranks.join(None if pipeline.name is None else run_path(pipeline.name))
    with ending_all(group):
        together(group, _nothing)
    return pipeline, group


def _group_of(values: Mapping[str, Any]) -> Group | None:
    """Return the others, who may wait for this rank; None: it cannot reach them."""
    try:
        return Auto().join(run_path(str(values.get("name"))))
    except DtsflowError:
        return None


def _raise(error: Exception) -> None:
    raise error


def agree_on_plan(pipeline: Pipeline, group: Group, cache: Path | None) -> Plan:
    """Return the plan for this rank, once all ranks have planned the same run.

    What has to exist on disk is made by one rank of each node, first by rank 0, which
    also plans first: then the others find in `cache` what takes long to find out.

    Raises:
        CommonError: A rank cannot plan it, or plans another run; on every rank. A rank
            that is alone raises its own error.
    """
    rank = group.rank
    first = rank.local_index == 0
    together(group, pipeline.prepare if rank.index == 0 else _nothing)
    together(group, pipeline.prepare if first and rank.index != 0 else _nothing)
    plan = _planned(pipeline, group, cache)
    agree(group, plan.facts())
    # What ranks do together depends on it, so the node with least memory decides.
    room = min(map(int, group.gather_texts(str(plan.room))))
    reading = together(group, partial(plan.reading_within, room))
    told = json.loads(broadcast(group, json.dumps(reading)))
    return replace(plan, agreed={name: (mode, why) for name, (mode, why) in told.items()})


def _planned(pipeline: Pipeline, group: Group, cache: Path | None) -> Plan:
    plans: list[Plan] = []

    def turn_of(ranks: range) -> None:
        if group.rank.index in ranks:
            plans.append(plan_run(pipeline, group.rank, cache))

    together(group, partial(turn_of, range(1)))
    together(group, partial(turn_of, range(1, group.rank.size)))
    return plans[0]


def agree_on_folder(
    name: str, command: str, group: Group, own_state: Callable[[RunFolder], State | None]
) -> tuple[RunFolder, State | None]:
    """Return the run folder that rank 0 makes, and the state to go on from.

    `own_state` finds that state; where there is none, the run begins anew.

    Raises:
        CommonError: A rank has no access to it, or its state is not one of this run.
    """
    rank = group.rank

    def make() -> RunFolder | None:
        return RunFolder.make(name, rank, command) if rank.index == 0 else None

    def find(made: RunFolder | None) -> State | None:
        if made is None:
            return None
        state = own_state(made)
        if state is None:
            made.begin_anew()
        else:  # the only one: ranks that have ended must not hold the others back
            made.forget_states()
            made.write(STATE, state.to_json(), durable=True)
        return state

    def enter() -> RunFolder:
        return made or RunFolder.enter(path, rank, command, anew=not told)

    made = together(group, make)
    try:
        state = together(group, partial(find, made))
        told, path = json.loads(
            broadcast(
                group, json.dumps([state.to_json() if state else "", str(made and made.path)])
            )
        )
        return together(group, enter), State.from_json(told) if told else None
    except BaseException:
        if made is not None:
            made.close()
        raise


def _nothing() -> None:
    """Do nothing, while another rank makes something."""
