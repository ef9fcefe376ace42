import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.packing.staging import Unfinished

NAMES = ("v.dts.manifest.jsonl", "v.dts")
HOLD = """
import sys
from pathlib import Path
from dtsflow.volume.packing.staging import Unfinished
with Unfinished(Path(sys.argv[1]), (), plan="p", resume=False):
    print("held", flush=True)
    sys.stdin.read()
"""


def unfinished(folder: Path, plan: str = "p", *, resume: bool = False) -> Unfinished:
    finals = tuple(folder / name for name in NAMES)
    return Unfinished(folder / ".v.part", finals, plan=plan, resume=resume)


def begin(folder: Path, plan: str = "p") -> None:
    """A pack that was killed after some work."""
    with unfinished(folder, plan) as one:
        (one.folder / "v.dts").write_text("half")


def test_the_files_take_their_names_together_and_the_folder_goes(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with unfinished(out) as one:
        assert not one.is_finished
        for name in NAMES:
            (one.folder / name).write_text(name)
        assert [path.name for path in out.iterdir()] == [".v.part"]
        one.install()
    assert {path.name: path.read_text() for path in out.iterdir()} == {n: n for n in NAMES}


def test_a_file_that_is_not_there_gets_no_name(tmp_path: Path) -> None:
    with unfinished(tmp_path) as one:
        (one.folder / "v.dts").touch()
        one.install()
    assert [path.name for path in tmp_path.iterdir()] == ["v.dts"]


def test_a_second_process_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".v.part")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"held\n"
            for resume in (False, True):
                with (
                    pytest.raises(PackError, match="is being written by another process"),
                    unfinished(tmp_path, resume=resume),
                ):
                    pytest.fail("two processes write")
            assert (tmp_path / ".v.part" / "plan").exists()
        finally:
            process.stdin.close()
            process.wait()
    with unfinished(tmp_path, resume=True):
        pass


def test_a_second_pack_in_this_process_is_refused_too(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        unfinished(tmp_path),
        pytest.raises(PackError, match="another process"),
        unfinished(tmp_path),
    ):
        pytest.fail("two packs write")


def test_a_pack_is_gone_on_with_by_the_same_plan(tmp_path: Path) -> None:
    begin(tmp_path)
    with unfinished(tmp_path, resume=True) as one:
        assert (one.folder / "v.dts").read_text() == "half"


def test_another_plan_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    begin(tmp_path)
    with (
        pytest.raises(PackError, match="other sources or options"),
        unfinished(tmp_path, "q", resume=True),
    ):
        pytest.fail("went on with another plan")
    with unfinished(tmp_path, resume=True) as one:
        assert (one.folder / "v.dts").read_text() == "half"


def test_without_resume_it_starts_anew(tmp_path: Path) -> None:
    for plan in ("p", "q"):
        begin(tmp_path, "p")
        with unfinished(tmp_path, plan) as one:
            assert {path.name for path in one.folder.iterdir()} == {"lock", "plan"}
        one.remove()


def test_resume_without_anything_to_resume_starts_anew(tmp_path: Path) -> None:
    with unfinished(tmp_path, resume=True) as one:
        assert {path.name for path in one.folder.iterdir()} == {"lock", "plan"}


def test_a_kill_at_the_very_start_leaves_nothing_that_stops_a_resume(tmp_path: Path) -> None:
    folder = tmp_path / ".v.part"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "plan.new").touch()  # a plan has its name only when it is whole
    with unfinished(tmp_path, resume=True) as one:
        assert (one.folder / "plan").read_text() == "p"


def test_a_plan_that_a_crash_garbled_is_another_plan(tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / ".v.part" / "plan").write_bytes(b"\0\xff")
    with (
        pytest.raises(PackError, match="other sources or options"),
        unfinished(tmp_path, resume=True),
    ):
        pytest.fail("went on")


def test_starting_anew_forgets_the_plan_before_it_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path)
    (tmp_path / ".v.part" / "finished").touch()
    unlink = Path.unlink
    removed: list[str] = []

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path.name)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt), unfinished(tmp_path):
        pytest.fail("began")
    # Else a resume would install half of what once was finished.
    assert removed == ["plan"]


def test_a_final_name_that_is_taken_is_refused_and_no_folder_is_left(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).touch()
        for resume in (False, True):
            with (
                pytest.raises(PackError, match=f"{name} exists already"),
                unfinished(tmp_path, resume=resume),
            ):
                pytest.fail("began")
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_a_link_to_nowhere_takes_the_name_too(tmp_path: Path) -> None:
    (tmp_path / "v.dts").symlink_to("gone")
    with pytest.raises(PackError, match="exists already"), unfinished(tmp_path):
        pytest.fail("began")


def test_a_name_taken_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with unfinished(tmp_path) as one:
        (one.folder / "v.dts").write_text("ours")
        (tmp_path / "v.dts").write_text("theirs")
        with pytest.raises(PackError, match="exists already"):
            one.install()
    assert (tmp_path / "v.dts").read_text() == "theirs"
    assert (one.folder / "v.dts").read_text() == "ours"


def test_a_crash_while_installing_is_made_good_by_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target.name == "v.dts":
            raise KeyboardInterrupt
        return rename(path, target)

    with unfinished(tmp_path) as one:
        for name in NAMES:
            (one.folder / name).write_text(name)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", killed)
            with pytest.raises(KeyboardInterrupt):
                one.install()
    assert (tmp_path / NAMES[0]).exists()
    assert not (tmp_path / "v.dts").exists()
    with unfinished(tmp_path, resume=True) as one:
        assert one.is_finished
        one.install()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {n: n for n in NAMES}


def test_a_folder_that_cannot_be_made_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PackError, match="cannot be written: Not a directory"):
        unfinished(tmp_path / "file").__enter__()


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), unfinished(tmp_path):
        raise ZeroDivisionError
    with unfinished(tmp_path, resume=True):
        pass
