"""Small text files that the user names: one entry a line."""

from collections.abc import Iterator
from pathlib import Path

from dtsflow.errors import PackError

TEXT_SUFFIXES = (".txt", ".md", ".json", ".jsonl", ".csv", ".yaml", ".yml")  # beside images


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark.

    Raises:
        PackError: It cannot be read, or is not UTF-8.
    """
    try:
        # As bytes, so that every kind of line end is still there for the csv module.
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise PackError(
            f"{path} is no UTF-8 text: byte {error.start} cannot be read. Save it as UTF-8."
        ) from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line without its end (LF or CRLF), with its number from 1.

    Raises:
        PackError: The file cannot be read, or a line is blank.
    """
    text = read_text(path)
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        entry = line.removesuffix("\r")
        if not entry.strip():
            raise PackError(f"{path} line {number} is blank. Remove it: lines are counted.")
        yield number, entry
