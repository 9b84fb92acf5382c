"""The command ``jetsync``: runs a command and turns its end into an exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence

from jetsync._version import __version__
from jetsync.cli import interrupts
from jetsync.cli.commands import WORDS
from jetsync.cli.failure import NotFoundError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Output
from jetsync.cli.registry import build_parser
from jetsync.cli.streams import give_up, open_missing
from jetsync.errors import (
    APIError,
    AuthorizationError,
    BucketNotFoundError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    KeyNotFoundError,
    MessageNotFoundError,
    ObjectNotFoundError,
    ObjectStoreNotFoundError,
    PermissionsError,
    StreamNotFoundError,
    TimeoutError,
    TLSRequiredError,
)

__all__ = ["main"]

_CODES: tuple[tuple[int, tuple[type[Error], ...]], ...] = (
    (2, (ConfigError,)),
    (
        3,
        (
            BucketNotFoundError,
            ConsumerNotFoundError,
            KeyNotFoundError,
            MessageNotFoundError,
            NotFoundError,
            ObjectNotFoundError,
            ObjectStoreNotFoundError,
            StreamNotFoundError,
        ),
    ),
    (4, (ConnectError, ConnectionClosedError, DisconnectedError, TimeoutError)),
)

_MISSING = (10149, 10160)
"""Codes of the server for what does not exist and has no such class: a consumer to be updated, a
priority group."""

_CHANGED_BY = {10058: "stream edit", 10148: "consumer edit"}
"""Codes of the server for what exists with another configuration; the library names its calls."""

_ADVICE: dict[type[Error], str] = {
    StreamNotFoundError: "; 'jetsync stream ls' shows those that there are",
    ConsumerNotFoundError: "; 'jetsync consumer ls STREAM' shows those that there are",
    PermissionsError: "; allow this user that subject, or sign in as another one",
    ConnectError: "; does a server run there? --server or --context names another one",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: it could not be done, or a check failed. 2: wrong options or configuration. 3: its
    object does not exist. 4: no connection, or no answer in time. 130, 143: interrupted by Ctrl-C
    or SIGTERM. Expected failures are one sentence on stderr, without a traceback.
    """
    if argv is None and "_ARGCOMPLETE" in os.environ:  # the shell asks what can be typed next
        from jetsync.cli.completion import autocomplete

        return autocomplete()
    open_missing()
    words = sys.argv[1:] if argv is None else argv
    out = Output(json=not {"-j", "--json"}.isdisjoint(words))  # until the line is understood
    try:
        with interrupts.terminable():
            args = build_parser(WORDS, __version__).parse_args(argv)
            out = _output(args)
            run: Callable[[Invocation], int | None] = args.run
            with Invocation(args, out) as invocation:
                return invocation.ended(run(invocation) or 0)
    except KeyboardInterrupt as interrupt:
        code = interrupts.exit_code(interrupt)
        out.error(interrupt, "interrupted; everything it started is stopped.")
        return code
    except Error as error:
        out.error(error, _told(error) + _advice(error))
        return _exit_code(error)
    except BrokenPipeError:
        # The output has no reader any more (as in "jetsync demo | head"), so no message is printed.
        give_up(sys.stdout)
        return 1
    except OSError as error:
        out.error(error, _sentence(error))
        return 1


def _exit_code(error: Error) -> int:
    if isinstance(error, APIError) and error.err_code in _MISSING:
        return 3
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), 1)


def _told(error: Error) -> str:
    """Return the text of an error, which names commands instead of calls of the library."""
    if not isinstance(error, APIError) or error.err_code not in _CHANGED_BY:
        return str(error)
    what, _, _ = str(error).partition("): ")
    names = " ".join(name for name in (error.stream, error.consumer) if name)
    return f"{what}); 'jetsync {_CHANGED_BY[error.err_code]} {names}' changes it"


def _advice(error: Error) -> str:
    """Return what the person at the terminal can do, where the error cannot know of commands."""
    if isinstance(error, (TLSRequiredError, AuthorizationError)):
        return ""
    return next((advice for kind, advice in _ADVICE.items() if isinstance(error, kind)), "")


def _sentence(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full: free some space, or choose another folder."
    what = error.strerror or str(error) or type(error).__name__
    return f"{what}." if error.filename is None else f"{os.fsdecode(error.filename)!r}: {what}."


def _output(args: argparse.Namespace) -> Output:
    given = vars(args)
    return Output(
        json=given.get("json", False),
        quiet=given.get("quiet", False),
        color=False if given.get("no_color") else None,
    )
