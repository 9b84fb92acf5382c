"""Ask before something is lost."""

from __future__ import annotations

import sys

from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import argument

__all__ = ["FORCE", "UNASKED", "confirm"]

FORCE = argument("-f", "--force", action="store_true", help="do not ask")
UNASKED = argument("-f", "--force", action="store_true", help="as elsewhere; nothing is asked here")
"""For what the ``nats`` command asks before, and this one does not."""


def confirm(invocation: Invocation, question: str) -> None:
    """Ask a person; without a terminal ``--force`` is needed. Raises CommandError for a no."""
    if invocation.args.force:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask at: give --force.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done.")
