from contextlib import ExitStack
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.ranks.collective import Collective
from dtsflow.volume.packing.staging import (
    WRITERS,
    Unfinished,
    _enter,
    _invite,
    co_writing,
    turn_out,
)


def test_several_ranks_are_let_in_and_keep_the_next_pack_out(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    folder = tmp_path / ".v.part"
    with Unfinished(folder, (), plan="p", resume=False), ExitStack() as held:
        word = _invite(folder)
        _enter(folder, word, held)
        _enter(folder, word, held)
        (folder / "v.dts").write_text("half")
        with pytest.raises(PackError, match="is being written by another process"):
            _invite(folder)
    with ExitStack() as held:  # rank 0 has died, another has not
        _enter(folder, word, held)
        for resume in (False, True):
            with (
                pytest.raises(PackError, match="is being written by another process"),
                Unfinished(folder, (), plan="p", resume=resume),
            ):
                pytest.fail("met a living writer")
        assert (folder / "v.dts").exists()
    with Unfinished(folder, (), plan="p", resume=True) as one:
        assert (one.folder / "v.dts").exists()


def test_a_rank_that_is_late_does_not_get_into_the_next_pack(tmp_path: Path) -> None:
    word = _invite(tmp_path)
    turn_out(tmp_path)
    with ExitStack() as held, pytest.raises(PackError, match="by another process"):
        _enter(tmp_path, word, held)
    again = _invite(tmp_path)
    with ExitStack() as held, pytest.raises(PackError, match="by another process"):
        _enter(tmp_path, word, held)
    with ExitStack() as held:
        _enter(tmp_path, again, held)


def test_a_rank_that_does_not_see_the_folder_says_what_it_needs(tmp_path: Path) -> None:
    with ExitStack() as held, pytest.raises(PackError, match="under the same path"):
        _enter(tmp_path / "elsewhere", "", held)


def test_one_process_alone_needs_no_such_lock(tmp_path: Path) -> None:
    with co_writing(tmp_path, Collective()):
        assert not (tmp_path / WRITERS).exists()
