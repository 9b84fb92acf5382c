"""``jetsync reply``: answer requests with a text, with what they say, or by a program."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from jetsync._printable import printable
from jetsync.cli import values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument
from jetsync.errors import ConfigError, MaxPayloadError

__all__ = ["COMMANDS"]

_MOST_VARIABLE = 100_000
"""Bytes of a request in an environment variable: Linux starts no program with one of 128 KiB."""


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args, nc = invocation.args, invocation.connect()
    ways = [args.body is not None, args.echo, args.command is not None]
    if sum(ways) != 1:
        raise UsageError("give one of BODY, --echo and --command.")
    fixed = values.read_body(args.body)
    program = None if args.command is None else _program(args.command)
    with nc.subscribe(args.subject, queue=args.queue) as subscription:
        nc.flush()
        invocation.out.note(f"answering on {args.subject!r}")
        answered = 0
        for msg in subscription:
            if not msg.reply:
                continue
            more: dict[str, object] = {}
            try:
                msg.respond(_output(program, msg) if program else msg.data if args.echo else fixed)
            except (CommandError, ConfigError, MaxPayloadError) as error:
                # Only this request cannot be answered; the next ones can.
                invocation.out.note(str(error))
                more["error"] = str(error)
                _refuse(msg)
            answered += 1
            invocation.out.item(
                values.message(msg, answered=answered, **more),
                lambda msg=msg, number=answered: f"[#{number}] {printable(msg.subject)}",  # type: ignore[misc]
            )
            if answered == args.count:
                nc.flush()
                return


def _program(command: str) -> list[str]:
    """Return the words of a command line, whose program exists."""
    import shlex
    import shutil

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command {command!r}: {error}.") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--command {command!r}: there is no such program.")
    return words


def _output(program: list[str], msg: Any) -> bytes:
    """Run the program, which finds the request on its standard input and in its environment."""
    import subprocess

    about = {"NATS_REQUEST_SUBJECT": msg.subject}
    text = msg.data.decode("utf-8", "replace").replace("\0", "")
    if len(text.encode()) <= _MOST_VARIABLE:
        about["NATS_REQUEST_BODY"] = text
    inherited = {key: value for key, value in os.environ.items() if key != "NATS_REQUEST_BODY"}
    try:
        done = subprocess.run(
            program,
            input=msg.data,
            stdout=subprocess.PIPE,
            env={**inherited, **about},
            check=False,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"{program[0]!r} could not be run: {error}") from None
    return bytes(done.stdout)


def _refuse(msg: Any) -> None:
    from jetsync.services.request import error_headers

    with contextlib.suppress(ConfigError):  # its reply subject may be the problem
        msg.respond(b"", headers=error_headers(500, "the request could not be answered"))


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
                "NATS_REQUEST_SUBJECT and (up to 100,000 bytes) NATS_REQUEST_BODY",
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
