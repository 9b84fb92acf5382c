"""The command ``jetsync``: its parser, and how any command ends."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence

from jetsync._version import __version__
from jetsync.cli import interrupts
from jetsync.errors import ConfigError, Error

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: it could not be done, or a check failed. 2: wrong options. 130, 143: interrupted by
    Ctrl-C or SIGTERM. Expected failures are one sentence on stderr, without a traceback.
    """
    try:
        with interrupts.terminable():
            arguments = _parser().parse_args(argv)
            command: Callable[[argparse.Namespace], int] = arguments.run
            return command(arguments)
    except KeyboardInterrupt as interrupt:
        code = interrupts.exit_code(interrupt)
        return _end("interrupted; everything it started is stopped.", code)
    except Error as error:
        return _end(str(error), 2 if isinstance(error, ConfigError) else 1)
    except BrokenPipeError:
        # The output has no reader any more (as in "jetsync demo | head"), so no message is printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return _end("the disk is full: free some space, or choose another folder.", 1)


def _end(sentence: str, code: int) -> int:
    print(f"jetsync: {sentence}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    from jetsync.cli import demo, server

    parser = argparse.ArgumentParser(
        prog="jetsync", description="NATS JetStream for synchronous Python."
    )
    parser.add_argument("--version", action="version", version=f"jetsync {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    demo.add_parser(commands)
    server.add_parser(commands)
    return parser
