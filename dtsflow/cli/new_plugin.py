"""`dtsflow new-plugin`: a working plugin to begin with."""

import argparse
import re
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path

from dtsflow.errors import ConfigError

KINDS = ("loader", "decoder", "operation", "consumer")

_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".in"  # so that no tool takes a template for code
_USE = "USE"  # the part of a README that a kind has for itself
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


def main(words: list[str]) -> int:
    """Write the project that `words` describe."""
    parser = argparse.ArgumentParser(
        prog="dtsflow new-plugin",
        description="Write a plugin to begin with: an installable project with classes, "
        "configs and tests that pass.",
    )
    parser.add_argument("name", metavar="NAME", help="its name: small letters, digits and _")
    parser.add_argument("--kind", choices=KINDS, required=True, help="what it is to bring")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="the project's folder, made (dtsflow-NAME)"
    )
    asked = parser.parse_args(words)
    folder = write_plugin(asked.name, asked.kind, asked.to)
    print(f"{folder} is written. Go on with:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest")
    return 0


def write_plugin(name: str, kind: str, folder: Path | None = None) -> Path:
    """Write a project; answers its folder.

    Raises:
        ConfigError: The name is none for a package, or the folder is there already.
    """
    if not _NAME.fullmatch(name) or iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot name a plugin: give small letters, digits and _, a letter first."
        )
    words = {
        "@NAME@": name,
        "@PACKAGE@": f"dtsflow_{name}",
        "@PROJECT@": f"dtsflow-{name.replace('_', '-')}",
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
    }
    folder = folder or Path(words["@PROJECT@"])
    if folder.exists():
        raise ConfigError(f"{folder} is there already: choose another name, or --to DIR.")
    files = dict(_files(kind, words))
    use = files.pop(_USE)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("@USE@", use.strip()), encoding="utf-8")
    return folder


def _files(kind: str, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the path and text of each file, with the words put in."""
    for root in (_TEMPLATES / "common", _TEMPLATES / kind):
        for template in sorted(root.rglob(f"*{_SUFFIX}")):
            path = template.relative_to(root).as_posix().removesuffix(_SUFFIX)
            yield _filled(path, words), _filled(template.read_text(encoding="utf-8"), words)


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
