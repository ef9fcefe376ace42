"""`dtsflow plugins`: which plugins are installed, and what they bring."""

import argparse
from collections.abc import Iterator

from dtsflow.cli.terminal import printable
from dtsflow.plugins_installed import GROUP, InstalledPlugin, installed_plugins


def main(words: list[str]) -> int:
    """List the plugins; 1 if one of them cannot be imported."""
    parser = argparse.ArgumentParser(
        prog="dtsflow plugins",
        description="List installed plugins: the classes that a configuration may name, and "
        "the folder of their configs.",
    )
    parser.parse_args(words)
    found = installed_plugins()
    if not found:
        print(
            f"No plugin is installed: none advertises the entry point group {GROUP}. Write one "
            "with `dtsflow new-plugin NAME --kind loader`."
        )
    for plugin in found:
        print("\n".join(printable(line) for line in _lines(plugin)))
    return int(any(plugin.problems for plugin in found))


def _lines(plugin: InstalledPlugin) -> Iterator[str]:
    yield f"{plugin.name}  ({plugin.project}, package {plugin.package})"
    for stage, classes in plugin.classes.items():
        yield f"  {stage:<9} {', '.join(classes)}"
    if plugin.sources:
        yield f"  {'pack':<9} {', '.join(plugin.sources)}"
    yield f"  {'conf':<9} {plugin.conf or 'none'}"
    for problem in plugin.problems:
        yield f"  {'cannot be imported':<9} {problem}"
