"""The command line of all benchmarks: their parts, a quick run, and figures that are quoted instead of measured.

    python benchmarks/bench_svd.py                   # all parts
    python benchmarks/bench_svd.py speed --quick     # one part, with a small setting that only shows that it runs
    python benchmarks/bench_svd.py --list            # the parts, and the figures they quote
    python benchmarks/bench_svd.py speed --set rounds=1

A part that needs data or a package that is not there is skipped, and the last lines say so.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class SkippedError(Exception):
    """A part cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Quoted(Mapping[Any, Any]):
    """Figures that this script does not measure.

    Columns that show them are marked with an asterisk, and the source is printed above them.

    Parameters
    ----------
    source : str
        Where the figures come from: a table of a publication, or who measured them and how.
    values : mapping
        The figures.
    """

    source: str
    values: Mapping[Any, Any]

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Part:
    """One part of a benchmark.

    Parameters
    ----------
    run : callable
        Its parameters have the values of the full run as defaults.
    quick : mapping
        Values for a run of less than about a minute, whose figures mean nothing.
    quoted : tuple of Quoted
        What it shows but does not measure.
    """

    run: Callable[..., None]
    quick: Mapping[str, Any] = field(default_factory=dict)
    quoted: tuple[Quoted, ...] = ()


def peer(name: str, package: str | None = None) -> Any:
    """Import a package that only benchmarks need, or skip the part."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SkippedError(f"it needs {package or name} (pip install {package or name})") from None


def main(
    description: str | None,
    parts: Mapping[str, Part],
    *,
    children: Mapping[str, Callable[..., None]] | None = None,
) -> None:
    """Run the parts that the command line names, or all.

    `children` are functions that a part calls in a separate process, by the function's name on the command line.
    """
    if children and sys.argv[1:2] and sys.argv[1] in children:
        children[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"the parts to run, of {', '.join(parts)}; all by default")
    parser.add_argument("--quick", action="store_true", help="run with small settings, to see that it works")
    parser.add_argument("--list", action="store_true", help="list the parts and what they quote")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of a part")
    given = parser.parse_args()
    if unknown := [name for name in given.parts if name not in parts]:
        parser.error(f"no part {', '.join(unknown)}; choose among {', '.join(parts)}")
    if given.list:
        for name, part in parts.items():
            print(name)
            for quoted in part.quoted:
                print(f"    quotes: {quoted.source}")
        return
    warnings.simplefilter("ignore")
    changed = {name: _value(text) for name, _, text in (setting.partition("=") for setting in given.set)}
    known = {key for name in given.parts or parts for key in inspect.signature(parts[name].run).parameters}
    if unknown := sorted(changed.keys() - known):
        parser.error(f"no parameter {', '.join(unknown)} in these parts; choose among {', '.join(sorted(known))}")
    skipped = {}
    for name in given.parts or parts:
        part = parts[name]
        settings = {**(part.quick if given.quick else {}), **changed}
        settings = {key: value for key, value in settings.items() if key in inspect.signature(part.run).parameters}
        print(f"== {name}" + (" (quick: the figures mean nothing)" if given.quick else ""), flush=True)
        for quoted in part.quoted:
            print(f"* quoted, not measured here: {quoted.source}")
        try:
            part.run(**settings)
        except SkippedError as reason:
            skipped[name] = reason
        print(flush=True)
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
