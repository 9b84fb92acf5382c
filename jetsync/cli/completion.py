"""``jetsync completion``: commands, options and names in a shell, by argcomplete (extra ``cli``).

What ``jetsync completion bash`` prints makes the shell run the command with ``_ARGCOMPLETE`` in its
environment; ``main()`` calls :func:`autocomplete` then. argcomplete follows the parser through the
words that are typed. Names of streams, consumers, buckets and contexts are asked for here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation, connect_options
from jetsync.cli.registry import Command, build_parser

__all__ = ["COMMANDS", "autocomplete", "names"]

_SECONDS = 0.5
"""The time that the server gets for its answer."""
_EXAMPLES = {
    "bash": 'eval "$(jetsync completion bash)"',
    "zsh": 'eval "$(jetsync completion zsh)"',
    "fish": "jetsync completion fish > ~/.config/fish/completions/jetsync.fish",
}


def autocomplete() -> int:
    """Tell the shell that asks which words can stand at the cursor. Ends the process, or returns
    its exit code where argcomplete is not installed."""
    from jetsync.cli.commands import WORDS

    try:
        import argcomplete
    except ImportError:
        return 1
    typed = os.environ.get("COMP_LINE", "").split()
    completer: Any = _completer
    argcomplete.autocomplete(
        build_parser(WORDS, "", typed=typed),
        always_complete_options=False,
        default_completer=completer,
    )
    return 0


def _completer(
    prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: object
) -> Iterable[str]:
    """Return what completes an argument that has no choices: names, or files."""
    kind = getattr(action, "completes", None)
    if kind is not None:
        return names(kind, parsed_args)
    if str(action.metavar) in ("FILE", "FOLDER", "DIR"):
        from argcomplete.completers import FilesCompleter

        found: Iterable[str] = FilesCompleter()(prefix)
        return found
    return ()


def names(kind: str, args: argparse.Namespace) -> list[str]:
    """Return the names of a kind ("stream", "consumer", "bucket", "store", "context"); none when
    the server does not tell them in half a second, whatever the reason. ``args`` has the flags of
    the connection, and the stream whose consumers are wanted."""
    from jetsync.errors import Error

    try:
        if kind == "context":
            from jetsync.protocol.contexts import ContextFolder

            return ContextFolder().names()
        return _asked(kind, args)
    except (Error, OSError):
        return []


def _asked(kind: str, args: argparse.Namespace) -> list[str]:
    from jetsync.client import connect
    from jetsync.jetstream import JetStream  # before the clock starts: it takes long

    until = time.monotonic() + _SECONDS
    options = connect_options(
        args, os.environ, timeout=_SECONDS, connect_timeout=_SECONDS, reconnect=False
    )
    with connect(options=options) as nc:
        js: JetStream = nc.jetstream(timeout=max(0.05, until - time.monotonic()))
        if kind == "stream":
            return list(js.stream_names())
        if kind == "consumer":
            return list(js.consumer_names(args.stream))
        return list(js.key_value_names() if kind == "bucket" else js.object_store_names())


def _script(shell: str) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        try:
            from argcomplete.shell_integration import shellcode
        except ImportError:
            raise UsageError('completion needs argcomplete: pip install "jetsync[cli]".') from None
        invocation.out.write(shellcode(["jetsync"], shell=shell).encode())

    return run


COMMANDS = tuple(
    Command(
        shell,
        f"print what makes {shell} complete commands and names",
        _script(shell),
        example=example,
        connects=False,
    )
    for shell, example in _EXAMPLES.items()
)
