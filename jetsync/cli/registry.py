"""How commands are declared, and the parser that is made of their declarations.

``commands.py`` has the table of first words (``stream``, ``pub``, ...). Behind each of them is a
module with ``COMMANDS``: one :class:`Command` per verb, or a single one with the name of the first
word itself. A module is imported when its word is used, so ``jetsync --help`` imports none.
Parser, completion and the reference page are made of the same declarations.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from jetsync.cli.failure import UsageError
from jetsync.cli.flags import CONNECTION, OUTPUT, Argument, argument

if TYPE_CHECKING:
    from jetsync.cli.invocation import Invocation

__all__ = ["Argument", "Command", "Word", "argument", "build_parser"]

_COMMAND, _VERB = "COMMAND", "VERB"


@dataclass(frozen=True)
class Command:
    """One command: its name, its arguments, an example, and the function that carries it out.

    ``run`` gets an :class:`Invocation` and returns an exit code, None for 0. ``help`` is a line
    without a full stop; ``description`` a text for ``--help`` (default: ``help``). ``connects``:
    it takes the flags of a connection. ``default``: it is meant where no verb is given. ``other``
    are names of the ``nats`` command for the same, which are taken and not shown; one of several
    words may end in flags, which are meant by it.
    """

    name: str
    help: str
    run: Callable[[Invocation], int | None]
    arguments: Sequence[Argument] = ()
    example: str = ""
    description: str = ""
    aliases: Sequence[str] = ()
    other: Sequence[str] = ()
    connects: bool = True
    default: bool = False


@dataclass(frozen=True)
class Word:
    """A first word of the command line, and the module with its commands. ``other``: as those of a
    :class:`Command`."""

    name: str
    help: str
    module: str
    aliases: Sequence[str] = ()
    other: Sequence[str] = ()

    def commands(self) -> Sequence[Command]:
        """Import the module and return its commands."""
        found: Sequence[Command] = import_module(self.module).COMMANDS
        return found


def build_parser(
    words: Iterable[Word], version: str, *, typed: Collection[str] | None = None
) -> argparse.ArgumentParser:
    """Return the parser of the whole command line. ``typed``: the words of a line that is not
    finished, which argcomplete follows: the parsers of its words are filled at once."""
    kind = _Parser if typed is None else _Unfinished
    parser = kind(
        prog="jetsync",
        description="NATS JetStream on the command line.",
        epilog="'jetsync COMMAND --help' shows the options and examples of a command.",
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"jetsync {version}")
    _add(parser, (*CONNECTION, *OUTPUT), hidden=True)
    parser.set_defaults(run=_lacking(parser))
    commands = parser.add_subparsers(title="commands", metavar=_COMMAND)
    for word in words:
        made = commands.add_parser(
            word.name,
            help=word.help,
            aliases=list(word.aliases),
            formatter_class=_Formatter,
            word=word,
        )
        if typed is None:
            commands.choices.update(dict.fromkeys(word.other, made))
        elif not {word.name, *word.aliases}.isdisjoint(typed):
            made.fill()
    return parser


def _fill(parser: argparse.ArgumentParser, word: Word) -> None:
    commands = word.commands()
    if _is_single(word, commands):
        _describe(parser, commands[0])
        return
    parser.description = f"{word.help[0].upper()}{word.help[1:]}."
    _add(parser, (*CONNECTION, *OUTPUT), hidden=True)
    parser.set_defaults(run=_lacking(parser))
    verbs = parser.add_subparsers(title="verbs", metavar=_VERB)
    for command in commands:
        made = verbs.add_parser(
            command.name,
            help=command.help,
            aliases=list(command.aliases),
            formatter_class=_Formatter,
        )
        if not isinstance(parser, _Unfinished):
            verbs.choices.update(dict.fromkeys(command.other, made))
        _describe(made, command)


def _lacking(parser: argparse.ArgumentParser) -> Callable[[Invocation], int]:
    """Return the function for a line without a command, or without a verb: it shows all of them
    to a person."""

    def run(invocation: Invocation) -> int:
        if invocation.out.json:
            raise UsageError(f"a command is missing; '{parser.prog} --help' shows what there is")
        parser.print_help(sys.stderr)
        return 2

    return run


def _describe(parser: argparse.ArgumentParser, command: Command) -> None:
    text = command.description or f"{command.help[0].upper()}{command.help[1:]}."
    parser.description = text
    if command.example:
        lines = "\n".join(f"  {line}" for line in command.example.splitlines())
        parser.epilog = f"example:\n{lines}"
    _add(parser, command.arguments)
    # The usage shows what is special to the command; the flags of every command stand below it.
    usage = parser.format_usage().partition(": ")[2].strip()
    parser.usage = f"{usage} [OPTIONS]".replace("%", "%%")
    if command.connects:
        _add(parser.add_argument_group("connection"), CONNECTION)
    _add(parser.add_argument_group("output"), OUTPUT)
    parser.set_defaults(run=command.run)


def _add(parser: Any, arguments: Iterable[Argument], *, hidden: bool = False) -> None:
    for one in arguments:
        one.add_to(parser, hidden=hidden)


def _is_single(word: Word, commands: Sequence[Command]) -> bool:
    return len(commands) == 1 and commands[0].name == word.name


def _with_verb(word: Word, rest: list[str]) -> list[str]:
    """Return the words behind the first one, with the one word that stands for a verb."""
    commands = word.commands()
    for command in commands:
        for name in command.other:
            words = [one for one in name.split() if not one.startswith("-")]
            if len(words) > 1 and rest[: len(words)] == words:
                return [command.name, *name.split()[len(words) :], *rest[len(words) :]]
    default = [one.name for one in commands if one.default]
    known = {name for one in commands for name in (one.name, *one.aliases, *one.other)}
    if not default or (rest and rest[0] in (*known, "-h", "--help")):
        return rest
    return [default[0], *rest]


class _Parser(argparse.ArgumentParser):
    """A parser that knows options by their whole names only, like its subparsers. The parser of a
    first word is filled when the word is used."""

    def __init__(self, *, word: Word | None = None, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._word = word
        self._filled = False
        self._is_mixing = False
        self._has_commands = False

    def fill(self) -> None:
        """Add the arguments or verbs of the first word, unless this was done before."""
        if self._word is not None and not self._filled:
            self._filled = True
            _fill(self, self._word)

    def add_subparsers(self, **options: Any) -> Any:
        """Make the list of commands, of which one stands among the words."""
        self._has_commands = True
        return super().add_subparsers(**options)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse what stands behind the word."""
        if self._word is not None:
            self.fill()
            args = _with_verb(self._word, list(args or ()))
        # Options may stand between the words of a command: "pub SUBJECT --js BODY". Behind "--"
        # there are none, and argparse would lose it.
        if self._has_commands or self._is_mixing:
            return super().parse_known_args(args, namespace)
        if "--" in (args or ()):
            return self._all_known(*super().parse_known_args(args, namespace))
        self._is_mixing = True
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False
        return self._all_known(found, unknown)

    def _all_known(
        self, found: argparse.Namespace, unknown: list[str]
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what a command does not know, and name it: argparse would name ``jetsync``."""
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Refuse a line in one sentence, like every other failure of a command: argparse would
        print its usage, which is many lines."""
        advice = "" if "--help' shows" in message else f"; '{self.prog} --help' shows what it takes"
        raise UsageError(f"{message}{advice}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is no command: argparse would print all that there are."""
        known = list(action.choices or ())
        if action.metavar not in (_COMMAND, _VERB) or value in known:
            super()._check_value(action, value)
            return
        import difflib

        near = difflib.get_close_matches(value, known, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        advice = f"{meant}'{self.prog} --help' shows what there is"
        raise argparse.ArgumentError(None, f"there is no '{self.prog} {value}'; {advice}")


class _Unfinished(_Parser):
    """The parser of a line that is being typed. It takes options and words in their order, which
    argcomplete follows by its own form of argparse's loop."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse what stands behind the word; without any, all of its verbs can follow."""
        if self._word is not None and args:
            args = _with_verb(self._word, list(args))
        return argparse.ArgumentParser.parse_known_args(self, args, namespace)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with one column for names, so that the texts stand below each other."""

    def __init__(self, prog: str, **options: Any) -> None:
        # argparse would ask shutil for the width, whose import takes longer than the help itself.
        super().__init__(prog, **{"max_help_position": 32, "width": _width(), **options})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Break the lines of a text at the width, but for those of examples."""
        import textwrap

        return "\n".join(
            line if line.startswith(" ") else textwrap.fill(line, width)
            for line in text.splitlines()
        )

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        # Only the list of commands: the usage already says that one is required.
        return text.partition("\n")[2] if action.metavar in (_COMMAND, _VERB) else text


def _width() -> int:
    """Return how wide help may be: as the terminal, but for two columns."""
    told = os.environ.get("COLUMNS", "")
    try:
        columns = int(told) if told.isdecimal() else os.get_terminal_size(1).columns
    except OSError:  # stdout is no terminal
        columns = 0
    return (columns or 80) - 2
