"""``jetsync reply``: answer requests with a text, with what they say, or by a program."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from jetsync._printable import printable
from jetsync.cli import templates, values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.flags import HEADER
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument
from jetsync.errors import ConfigError, MaxPayloadError

__all__ = ["COMMANDS"]

_MOST_VARIABLE = 100_000
"""Bytes of a request in an environment variable: Linux starts no program with one of 128 KiB."""


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args = invocation.args
    ways = [args.body is not None, args.echo, args.command is not None]
    if sum(ways) != 1:
        raise UsageError("give one of BODY, --echo and --command.")
    fixed = values.read_body("-") if args.body == "-" else None
    program = None if args.command is None else _program(args.command)
    templates.check(args.body or "", args.command or "", *args.header)
    values.headers(args.header)
    nc = invocation.connect()
    with nc.subscribe(args.subject, queue=args.queue) as subscription:
        nc.flush()
        invocation.out.note(f"answering on {args.subject!r}")
        answered = 0
        for msg in subscription:
            if not msg.reply:
                continue
            more: dict[str, object] = {}
            try:
                number = answered + 1
                given = values.headers(
                    templates.fill(header, number, msg.data) for header in args.header
                )
                if program is not None:
                    data = _output(program, msg, number)
                elif args.echo:
                    data = msg.data
                elif fixed is not None:
                    data = fixed
                else:
                    text = templates.fill(args.body, number, msg.data)
                    data = text.encode("utf-8", "surrogateescape")
                msg.respond(data, headers=given)
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
        words = shlex.split(templates.in_one_word(command))
    except ValueError as error:
        raise UsageError(f"--command {command!r}: {error}.") from None
    if not words or (not templates.has_places(words[0]) and shutil.which(words[0]) is None):
        raise UsageError(f"--command {command!r}: there is no such program.")
    return words


def _output(program: list[str], msg: Any, number: int) -> bytes:
    """Run the program, which finds the request on its standard input and in its environment."""
    import subprocess

    about = {"NATS_REQUEST_SUBJECT": msg.subject}
    text = msg.data.decode("utf-8", "replace").replace("\0", "")
    if len(text.encode()) <= _MOST_VARIABLE:
        about["NATS_REQUEST_BODY"] = text
    words = templates.fill_command(program, number, msg.subject, msg.data)
    inherited = {key: value for key, value in os.environ.items() if key != "NATS_REQUEST_BODY"}
    try:
        done = subprocess.run(
            words,
            input=msg.data,
            stdout=subprocess.PIPE,
            env={**inherited, **about},
            check=False,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"{words[0]!r} could not be run: {error}") from None
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
            argument("BODY", nargs="?", help='the answer; "-" reads standard input'),
            HEADER,
            argument("--echo", action="store_true", help="answer with the data of the request"),
            argument(
                "--command",
                metavar="PROGRAM",
                help="answer with the output of a program; it gets the data on standard input, and "
                "NATS_REQUEST_SUBJECT and (up to 100,000 bytes) NATS_REQUEST_BODY; {{0}}, {{1}}, "
                "... are the tokens of the subject",
            ),
            argument(
                "--queue",
                metavar="NAME",
                default="NATS-RPLY-22",
                help="queue group (default: %(default)s)",
            ),
            argument("--count", type=values.count, metavar="N", help="end after so many answers"),
        ),
        example="jetsync reply greet.joe 'hello back'\n"
        "jetsync reply 'greet.*' 'no. {{Count}}: hello {{Request}}'\n"
        "jetsync reply 'sum.*.*' --command 'expr {{1}} + {{2}}'",
        description="Answer requests with a text, with what they say, or by a program. In BODY "
        "(but for that of standard input), headers and --command these are filled in for each: "
        f"{{{{Request}}}} (its data), {templates.HELP}.",
    ),
)
