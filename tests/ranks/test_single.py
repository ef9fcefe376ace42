import pytest

from dtsflow.config.configurable import is_configurable
from dtsflow.errors import RanksError
from dtsflow.ranks import Single
from dtsflow.ranks.group import Rank, broadcast


def test_without_a_launcher_this_process_is_rank_0_of_1() -> None:
    group = Single().join(None, {})
    assert group.peers == (0,)
    assert group.rank == Rank(index=0, size=1, node=0, local_index=0, local_size=1)


def test_a_launcher_that_started_one_process_is_welcome() -> None:
    assert Single().join(None, {"OMPI_COMM_WORLD_SIZE": "1"}).rank.size == 1


def test_a_launcher_that_started_several_is_refused_with_both_numbers_and_the_fix() -> None:
    with pytest.raises(RanksError) as caught:
        Single().join(None, {"PMI_SIZE": "3"})
    for part in ("runs 1 process", "PMI_SIZE", "that 3 were", "Use ranks=auto"):
        assert part in str(caught.value)


def test_the_environment_of_the_process_is_asked_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "5")
    with pytest.raises(RanksError, match="SLURM_STEP_NUM_TASKS says that 5"):
        Single().join()


def test_yaml_may_name_it() -> None:
    assert is_configurable(Single)


def test_alone_a_gathering_is_ones_own_word_and_an_abort_an_error() -> None:
    group = Single().join(None, {})
    assert group.gather_texts("é") == broadcast(group, "é").split() == ["é"]
    with pytest.raises(RanksError, match="it broke"):
        group.abort("it broke")
    group.close()
