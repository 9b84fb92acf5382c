"""``jetsync completion``: words for the shell, with names asked from the server."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jetsync.cli.flags import CONNECTION, OUTPUT, Argument, argument
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, Word, build_parser

__all__ = ["COMMANDS", "complete", "typed_in"]

_SECONDS = 0.5
_SCRIPTS = {
    "bash": """_jetsync() {
    local IFS=$'\\n'
    COMPREPLY=($(jetsync completion words --breaks "$COMP_WORDBREAKS" \\
        --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    [ ${#COMPREPLY[@]} -eq 0 ] && compopt -o default
}
complete -F _jetsync jetsync
""",
    "zsh": """#compdef jetsync
_jetsync() {
    local -a found
    found=("${(@f)$(jetsync completion words -- "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _jetsync jetsync
""",
    "fish": """function __jetsync
    set -l typed (commandline -opc) (commandline -ct)
    jetsync completion words -- $typed[2..-1] 2>/dev/null
end
complete -c jetsync -f -a '(__jetsync)'
""",
}


def complete(typed: Sequence[str], names: Callable[[str, list[str]], Iterable[str]]) -> list[str]:
    """Return the words that can stand in place of the last one. ``names`` looks up the names of a
    kind ("stream", "context", ...); it gets the positional words before as well."""
    from jetsync.cli.commands import WORDS

    *before, last = typed or [""]
    word, command, positional, wanted = _understood(WORDS, before)
    if wanted is not None:  # the value of an option
        choices = wanted.options.get("choices")
        found: Iterable[str] = choices or (
            names(wanted.completes, positional) if wanted.completes else ()
        )
    elif last.startswith("-"):
        found = [name for one in _flags(command) for name in one.names if name.startswith("--")]
    elif word is None:
        found = [one.name for one in WORDS]
    elif command is None:
        found = [one.name for one in word.commands()]
    else:
        places = [one for one in command.arguments if not one.names[0].startswith("-")]
        place = places[len(positional)] if len(positional) < len(places) else None
        found = names(place.completes, positional) if place and place.completes else ()
    return sorted(one for one in found if one.startswith(last))


def typed_in(line: str) -> list[str]:
    """Return the words of a command line behind the command, the last one unfinished or empty.
    Bash gives words that it has cut at colons and equal signs, so the address of a server is none
    of them."""
    for quote in ("", "'", '"'):  # that the person has not closed yet
        try:
            words = shlex.split(line + quote)
        except ValueError:
            continue
        return [*words[1:], *([""] if not quote and line[-1:].isspace() else [])] or [""]
    return [""]


def _understood(
    words: Sequence[Word], typed: Sequence[str]
) -> tuple[Word | None, Command | None, list[str], Argument | None]:
    """Return word, command, positional words, and the option that waits for its value."""
    word: Word | None = None
    command: Command | None = None
    positional: list[str] = []
    wanted: Argument | None = None
    for text in typed:
        if wanted is not None:
            wanted = None
        elif text.startswith("-"):
            known = [one for one in _flags(command) if text in one.names]
            wanted = next((one for one in known if "action" not in one.options), None)
        elif word is None:
            word = next((one for one in words if text in (one.name, *one.aliases)), None)
            commands = word.commands() if word else ()
            if word and len(commands) == 1 and commands[0].name == word.name:
                command = commands[0]
        elif command is None:
            command = next(
                (one for one in word.commands() if text in (one.name, *one.aliases)), None
            )
        else:
            positional.append(text)
    return word, command, positional, wanted


def _flags(command: Command | None) -> list[Argument]:
    own = [] if command is None else [*command.arguments]
    return [one for one in (*own, *CONNECTION, *OUTPUT) if one.names[0].startswith("-")]


def _names(invocation: Invocation) -> Callable[[str, list[str]], list[str]]:
    def look(kind: str, positional: list[str]) -> list[str]:
        if kind == "context":
            from jetsync.protocol.contexts import ContextFolder

            return ContextFolder().names()
        js: Any = invocation.jetstream()
        if kind == "stream":
            return list(js.stream_names())
        if kind == "consumer":
            return list(js.consumer_names(positional[0]))
        return list(js.key_value_names() if kind == "bucket" else js.object_store_names())

    return look


def _script(shell: str) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        invocation.out.write(_SCRIPTS[shell].encode())

    return run


def _words(invocation: Invocation) -> None:
    """Print the words; whatever goes wrong prints none."""
    from jetsync.cli.commands import WORDS
    from jetsync.errors import Error

    typed, cut = list(invocation.args.typed), 0
    if invocation.args.line is not None:
        typed = typed_in(invocation.args.line)
        cut = 1 + max((typed[-1].rfind(one) for one in invocation.args.breaks), default=-1)
    flags = [text for text in typed[:-1] if text != "--"]
    try:
        args, _ = build_parser(WORDS, "").parse_known_args([*_global(flags), "version"])
        args.timeout = str(_SECONDS)
        with Invocation(args, invocation.out) as asking:
            for word in complete(typed, _names(asking)):
                invocation.out.write(f"{word[cut:]}\n".encode())
    except (Error, OSError, SystemExit):
        return


def _global(typed: list[str]) -> list[str]:
    """The connection flags among the words, with their values."""
    found: list[str] = []
    at = 0
    while at < len(typed):
        name, joined, _ = typed[at].partition("=")
        known = next((one for one in CONNECTION if name in one.names), None)
        size = 0 if known is None else 1 if joined or "action" in known.options else 2
        found += typed[at : at + size]
        at += size or 1
    return found


COMMANDS = (
    *(
        Command(
            shell,
            f"print what makes {shell} complete commands and names",
            _script(shell),
            example={
                "bash": 'eval "$(jetsync completion bash)"',
                "zsh": 'eval "$(jetsync completion zsh)"',
                "fish": "jetsync completion fish > ~/.config/fish/completions/jetsync.fish",
            }[shell],
            connects=False,
        )
        for shell in _SCRIPTS
    ),
    Command(
        "words",
        "print the words that complete a command line",
        _words,
        (
            argument("TYPED", nargs="*", help="the words so far, the last one unfinished"),
            argument("--line", metavar="TEXT", help="the whole line so far, in their place"),
            argument(
                "--breaks",
                metavar="TEXT",
                default="",
                help="where the shell cuts words itself: what stands before is not printed",
            ),
        ),
        example="jetsync completion words stream in",
        connects=False,
    ),
)
