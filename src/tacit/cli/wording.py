"""Messages in the words of the command line: a command names its own options, where the library names parameters.

The library cannot know who calls it, so it writes ``delta=1e-6`` or `rating_range`. A command of tacit has an option for most
parameters; the names in messages are replaced by these options. Parameters without an option stay as they are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from typer.core import TyperGroup

from tacit.cli.output import charged
from tacit.errors import InvalidInputError, TacitError, Words, words

ALSO_CALLED = {
    "n_components": "rank",
    "n_factors": "factors",
    "random_state": "seed",
    "target_range": "label_range",
    "drop": "left_out",
    "n_neighbours": "neighbours",
    "n_clusters": "clusters",
    "k": "length",
}
"""Parameters whose option has another name."""
PHRASES = {
    "open_account(dataset, epsilon, delta)": "tacit budget open NAME --epsilon E --delta D",
    "with missing=True": "with missing = true in the schema",
    ", or call its method confirmed(): this": ": this",
    "State the column's kind and its bounds or categories, from public knowledge, or name it in left_out.": (
        "Draft a schema with `tacit tables schema`, check it and give it with --schema; or state the columns in --bounds and "
        "--categories, and leave others out with --drop."
    ),
    "(in the shell: tacit budget open": "(tacit budget open",
}
"""Advice for Python, and the same for the command line."""
_options: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)


class OptionNames(TyperGroup):
    """The group of all commands; errors of a command name its options."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke the command, and translate its errors and warnings."""
        arguments = [*ctx._protected_args, *ctx.args]
        audited = (
            options_of(self, arguments[1:]) if arguments[:1] == ["audit"] else {}
        )  # those of the command that it reads
        with _speaking_of(audited | options_of(self, arguments)):
            try:
                refuse_repeated(named_command(self, arguments), arguments)
                return super().invoke(ctx)
            except TacitError as error:
                kind, parts = error.__reduce__()
                told = kind(in_options(parts[0]), Words(in_options(parts[1])), in_options(parts[2]), *parts[3:])
                raise told.with_traceback(error.__traceback__) from error.__cause__


@contextmanager
def _speaking_of(options: Mapping[str, str]) -> Iterator[None]:
    token = _options.set(options)
    charged.set(None)  # of an earlier command in the same process
    try:
        yield
    finally:
        _options.reset(token)


def named_command(command: Any, arguments: list[str]) -> Any:
    """Return the command that these arguments name."""
    for word in arguments:
        inner = getattr(command, "commands", {})
        if not inner:
            break
        if word in inner:
            command = inner[word]
        elif "table" in inner and not word.startswith("-"):  # `tacit measure`, whose first argument may be a file
            command = inner["table"]
    return command


def refuse_repeated(command: Any, arguments: list[str]) -> None:
    """Refuse an option that has one value and is given several times: all values but the last would be passed by."""
    if not command.context_settings.get("allow_interspersed_args", True):  # `tacit audit`: another command follows
        return
    given = [word.split("=")[0] for word in itertools.takewhile(lambda word: word != "--", arguments)]
    for option in command.params:
        if option.param_type_name != "option" or option.multiple or option.is_flag:
            continue
        if sum(word in option.opts for word in given) > 1:
            name = max(option.opts, key=len)
            raise InvalidInputError(
                f"{name} once",
                words("several"),
                f"Give one value; a list has commas, as in {name} a,b where it is possible.",
            )


def options_of(command: Any, arguments: list[str]) -> dict[str, str]:
    """Return the options of the command that these arguments name, by parameter."""
    options = {}
    for parameter in named_command(command, arguments).params:
        longest = max(parameter.opts, key=len)
        if longest.startswith("--"):
            options[parameter.name] = longest
    return options | {
        name: options[other] for name, other in ALSO_CALLED.items() if other in options and name not in options
    }


def in_options(text: str, options: Mapping[str, str] | None = None) -> str:
    """Return a message with the options of a command in place of parameters.

    Examples
    --------
    >>> options = {"delta": "--delta", "row_norm": "--row-norm", "unchanged": "--pass"}
    >>> in_options("Give a larger row_norm, for example row_norm=2.0.", options)
    'Give a larger --row-norm, for example --row-norm 2.0.'
    >>> in_options("Name them in unchanged= (--pass); `delta` stays below 1.", options)
    'Name them in --pass; --delta stays below 1.'
    >>> in_options("Give limits, for example value_range=(0, 1).", {"value_range": "--value-range"})
    'Give limits, for example --value-range 0:1.'
    >>> in_options("the column delta of the table", options)
    'the column delta of the table'
    """
    options = _options.get() if options is None else options
    for python, command in PHRASES.items():
        text = text.replace(python, command) if options is not None else text
    if not options:
        return text
    text = re.sub(r"`?\w+=\S*`?(?: or \S+)? \((--[^)]+)\)", r"\1", text)  # both are named: keep the option
    text = re.sub(r"\((\w+=\S*), (--[\w-]+)\)", r"(\2)", text)
    for name, option in options.items():
        text = re.sub(rf"(?<![\w\-.=])`?{name}=([^\s`]*?)`?(?=[.,;:)]*(?:\s|$))", rf"{option} \1", text)
        text = re.sub(rf"`{name}`", option, text)
        text = re.sub(rf"^{name}(?= (?:to be|of a private fit|between|as a|with) )", option, text)
        if "_" in name:
            text = re.sub(rf"(?<![\w\-.'\"/]){name}(?![\w=./'\"])", option, text)
    text = re.sub(r"(--[\w-]+)[ =]\((-?[\d.]+), (-?[\d.]+)\)", r"\1 \2:\3", text)  # a range is LOW:HIGH here
    return re.sub(r"(--[\w-]+) (?=[.,;:) ])", r"\1", text)
