from pathlib import Path

import pytest

from dtsflow.cli.overrides import configure
from dtsflow.errors import ConfigError

pytestmark = pytest.mark.usefixtures("workdir")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["+experiment=mnist", "name=mine"], "mine"),
        (["+experiment=mnist"], "mnist"),
        (["volume.path=x.dts"], "run"),
    ],
)
def test_a_run_is_named_by_its_name_its_experiment_or_run(words: list[str], name: str) -> None:
    configured = configure("run", "", words)
    assert configured.composed.values["name"] == name
    assert configured.arguments == words


def test_words_may_stand_on_either_side_of_an_option() -> None:
    Path("more/experiment").mkdir(parents=True)
    Path("more/experiment/own.yaml").write_text("# @package _global_\nbatch_size: 12\n")
    words = ["seed=3", "--config-dir", "more", "+experiment=own", "~tail"]
    values = configure("plan", "", words).composed.values
    assert (values["seed"], values["batch_size"]) == (3, 12)
    assert "tail" not in values


@pytest.mark.parametrize("word", ["mnist", "--seed", "-x"])
def test_a_word_that_configures_nothing_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=f"'{word}' is neither a command nor KEY=VALUE"):
        configure("run", "", ["seed=1", word])


def test_help_tells_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        configure("plan", "Print the plan.", ["--help"])
    told = capsys.readouterr().out
    assert left.value.code == 0
    assert "dtsflow plan" in told
    assert "Print the plan." in told
