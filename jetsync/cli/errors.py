"""``jetsync errors``: what the numbers of JetStream errors mean here."""

from __future__ import annotations

import inspect

from jetsync.cli.failure import NotFoundError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument
from jetsync.errors.api import ERR_CODES

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    code = invocation.args.code
    if code is not None and code not in ERR_CODES:
        raise NotFoundError(f"jetsync has no class of its own for err_code {code}: APIError.")
    chosen = sorted(ERR_CODES.items()) if code is None else [(code, ERR_CODES[code])]
    data = [
        {"err_code": number, "type": kind.__name__, "description": _meaning(kind)}
        for number, kind in chosen
    ]
    rows = [tuple(one.values()) for one in data]
    table = Table(("CODE", "ERROR", "MEANING"), [(str(row[0]), *row[1:]) for row in rows])
    invocation.out.show(data, table)


def _meaning(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


COMMANDS = (
    Command(
        "errors",
        "list the errors of JetStream by number",
        run,
        (argument("CODE", nargs="?", type=int, help="an err_code, such as 10059"),),
        example="jetsync errors 10059",
        connects=False,
    ),
)
