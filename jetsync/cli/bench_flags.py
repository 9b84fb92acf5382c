"""The flags of ``jetsync bench``, which several of its verbs share."""

from __future__ import annotations

import argparse

from jetsync.cli import values
from jetsync.cli.flags import Argument, argument

__all__ = [
    "BUCKET",
    "CONSUMER",
    "MANY",
    "MULTI",
    "SLEEP",
    "STREAM",
    "SUBJECT",
    "batch",
    "sizes",
]


def sizes(messages: int) -> tuple[Argument, ...]:
    """Return the flags of every run; ``messages`` is the default of ``--msgs``."""
    return (
        argument("--clients", type=values.count, default=1, help="connections (default: 1)"),
        argument(
            "--msgs",
            type=values.count,
            default=messages,
            help="messages in all (default: %(default)s)",
        ),
        argument("--size", type=values.size, default=128, help="of a message (default: 128)"),
        argument("--csv", metavar="FILE", help="write the figures of each client to a file"),
        *_TAKEN,
    )


def batch(what: str, default: int | None) -> Argument:
    """A flag for messages at a time, by what is done with them."""
    told = f"{what} (default: {default or 'as many as the library does'})"
    return argument("--batch", type=values.count, default=default, metavar="N", help=told)


SUBJECT = argument("SUBJECT", nargs="?", help="default: one of its own")
_TAKEN = (
    # Of the nats command: nothing is drawn here, and the stream is always a new one.
    argument("--progress", action="store_true", help=argparse.SUPPRESS),
    argument("--no-progress", action="store_true", help=argparse.SUPPRESS),
    argument("--create", action="store_true", help=argparse.SUPPRESS),
    argument("--purge", action="store_true", help=argparse.SUPPRESS),
)
SLEEP = argument("--sleep", type=values.pause, metavar="TIME", help="pause behind a message")
MULTI = argument("--multisubject", action="store_true", help="a subject for each message")
MANY = (
    MULTI,
    argument(
        "--multisubjectmax",
        type=values.count,
        default=100_000,
        metavar="N",
        help="most subjects of a client (default: %(default)s)",
    ),
)
_STORAGE = (
    argument("--storage", choices=("file", "memory"), default="file", help="(default: file)"),
    argument("--replicas", type=values.count, default=1, metavar="N", help="(default: 1)"),
    argument("--maxbytes", type=values.size, metavar="SIZE", help="most bytes (default: any)"),
)
STREAM = (
    argument(
        "--stream", metavar="NAME", help="name of the stream that is made (default: a random one)"
    ),
    *_STORAGE,
    *MANY,
)
CONSUMER = argument(
    "--consumer", metavar="NAME", default="bench", help="its durable consumer (default: bench)"
)
BUCKET = (
    argument(
        "--bucket", metavar="NAME", help="name of the bucket that is made (default: a random one)"
    ),
    argument(
        "--history", type=values.count, default=1, metavar="N", help="values of a key (default: 1)"
    ),
    *_STORAGE,
)
