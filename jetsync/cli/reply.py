"""``jetsync reply``: answer requests with a text, with what they say, or by a program."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    told, nc = invocation.arguments, invocation.connect()
    ways = [told.body is not None, told.echo, told.command is not None]
    if sum(ways) != 1:
        raise UsageError("give one of BODY, --echo and --command.")
    fixed = values.read_body(told.body)
    with nc.subscribe(told.subject, queue=told.queue) as subscription:
        nc.flush()
        invocation.out.note(f"answering on {told.subject!r}")
        answered = 0
        for msg in subscription:
            if not msg.reply:
                continue
            data = _output(told.command, msg) if told.command else msg.data if told.echo else fixed
            msg.respond(data)
            answered += 1
            invocation.out.item(
                values.message(msg, answered=answered),
                lambda msg=msg, number=answered: (
                    f"[#{number}] {values.body_text(msg.subject.encode())}"
                ),  # type: ignore[misc]
            )
            if answered == told.count:
                nc.flush()
                return


def _output(command: str, msg: Any) -> bytes:
    """Run the program, which finds the request on its standard input and in its environment."""
    about = {
        "NATS_REQUEST_SUBJECT": msg.subject,
        "NATS_REQUEST_BODY": msg.data.decode("utf-8", "replace").replace("\0", ""),
    }
    try:
        done = subprocess.run(
            shlex.split(command),
            input=msg.data,
            stdout=subprocess.PIPE,
            env={**os.environ, **about},
            check=False,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"{command!r} could not be run: {error}") from None
    return bytes(done.stdout)


COMMANDS = (
    Command(
        "reply",
        "answer requests with a text, with what they say, or by a program",
        run,
        (
            argument("SUBJECT", help="subject to listen on"),
            argument("BODY", nargs="?", help="the answer"),
            argument("--echo", action="store_true", help="answer with the data of the request"),
            argument(
                "--command",
                metavar="PROGRAM",
                help="answer with the output of a program; it gets the data on standard input, and "
                "NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY",
            ),
            argument(
                "--queue",
                metavar="NAME",
                default="NATS-RPLY-22",
                help="queue group (default: %(default)s)",
            ),
            argument("--count", type=values.count, metavar="N", help="end after so many answers"),
        ),
        example="jetsync reply greet.joe 'hello back'",
    ),
)
