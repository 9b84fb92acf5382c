"""``jetsync errors``: what the numbers of JetStream errors mean here."""

from __future__ import annotations

import inspect

from jetsync.cli.failure import NotFoundError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument
from jetsync.errors.api import ERR_CODES

__all__ = ["COMMANDS"]


_VERBS = ("ls", "list", "lookup", "find", "get", "l", "view", "show")
"""Words of the ``nats`` command, which may stand before the code and mean nothing here."""


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    words = invocation.args.code
    codes = [_code(text) for text in (words[1:] if words[:1] and words[0] in _VERBS else words)]
    for code in codes:
        if code not in ERR_CODES:
            raise NotFoundError(f"jetsync has no class of its own for err_code {code}: APIError.")
    chosen = [(code, ERR_CODES[code]) for code in codes] or sorted(ERR_CODES.items())
    data = [
        {"err_code": number, "type": kind.__name__, "description": _meaning(kind)}
        for number, kind in chosen
    ]
    rows = [tuple(one.values()) for one in data]
    table = Table(("CODE", "ERROR", "MEANING"), [(str(row[0]), *row[1:]) for row in rows])
    invocation.out.show(data, table)


def _code(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"an err_code is a number such as 10059, not {text!r}.")
    return int(text)


def _meaning(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


COMMANDS = (
    Command(
        "errors",
        "list the errors of JetStream by number",
        run,
        (argument("CODE", nargs="*", help="an err_code, such as 10059"),),
        example="jetsync errors 10059",
        connects=False,
    ),
)
