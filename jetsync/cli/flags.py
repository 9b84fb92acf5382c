"""The flags that every command takes: how to connect, and how to print."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ALL",
    "CONNECTION",
    "HEADER",
    "NO_SELECT",
    "OUTPUT",
    "PROGRESS",
    "SIGN_IN",
    "Argument",
    "argument",
]


@dataclass(frozen=True)
class Argument:
    """One argument of a command, as ``argparse`` takes it. ``completes`` says whose names complete
    it: "stream", "consumer", "bucket", "store" or "context". ``other`` are names of the ``nats``
    command for the same flag, which are taken and not shown."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    completes: str | None = None
    other: tuple[str, ...] = ()

    def add_to(self, parser: Any, *, hidden: bool = False) -> None:
        """Add it to a parser or to a group of one."""
        options = dict(self.options)
        if hidden:
            options["help"] = argparse.SUPPRESS
        added = parser.add_argument(*self.names, **options)
        added.completes = self.completes  # read by completion
        if self.other:
            same = {**options, "dest": added.dest, "help": argparse.SUPPRESS}
            parser.add_argument(*self.other, **same)


def argument(
    *names: str, completes: str | None = None, other: tuple[str, ...] = (), **options: Any
) -> Argument:
    """Declare an argument: ``argument("STREAM", help=...)``, ``argument("--count", type=int)``."""
    if not names[0].startswith("-"):
        options.setdefault("metavar", names[0])
        names = (names[0].lower(),)
    return Argument(names, options, completes, other)


def _flag(*names: str, **options: Any) -> Argument:
    """A flag that may stand before and behind the command, so it has no default of its own."""
    return argument(*names, default=argparse.SUPPRESS, **options)


HEADER = argument(
    "-H",
    "--header",
    metavar="NAME:VALUE",
    action="append",
    default=[],
    help="add a header; may be repeated",
)
# Flags of the ``nats`` command that change nothing here, and are not shown.
ALL = argument("-a", "--all", action="store_true", help=argparse.SUPPRESS)
"""The ``nats`` command hides streams of buckets without it; here they are always listed."""
NO_SELECT = argument("--no-select", action="store_true", help=argparse.SUPPRESS)
"""The ``nats`` command asks for a stream that is not named; here it has to be named."""
PROGRESS = argument("--progress", action=argparse.BooleanOptionalAction, help=argparse.SUPPRESS)
"""Progress is drawn where a person looks at it."""

SIGN_IN = {
    "user": "NATS_USER",
    "password": "NATS_PASSWORD",
    "token": "NATS_TOKEN",
    "creds": "NATS_CREDS",
    "nkey": "NATS_NKEY",
    "jwt": "NATS_JWT",
    "seed": "NATS_SEED",
}
"""The flags that sign in, and the variables they stand above."""

CONNECTION = (
    _flag("-s", "--server", metavar="URL", help="servers, separated by commas ($NATS_URL)"),
    _flag("--context", metavar="NAME", completes="context", help="context to use ($NATS_CONTEXT)"),
    _flag("--no-context", action="store_true", help="use no context, not even the selected one"),
    _flag("--user", metavar="NAME", help="user, or a token if no password is given ($NATS_USER)"),
    _flag("--password", metavar="TEXT", help="password ($NATS_PASSWORD)"),
    _flag("--token", metavar="TEXT", help="token ($NATS_TOKEN)"),
    _flag("--creds", metavar="FILE", help=".creds file ($NATS_CREDS)"),
    _flag("--nkey", metavar="FILE", help="file with an NKEY seed ($NATS_NKEY)"),
    _flag("--jwt", metavar="TEXT", help="user JWT ($NATS_JWT)"),
    _flag("--seed", metavar="TEXT", help="NKEY seed for the JWT ($NATS_SEED)"),
    _flag("--tlscert", metavar="FILE", help="TLS certificate ($NATS_CERT)"),
    _flag("--tlskey", metavar="FILE", help="TLS private key ($NATS_KEY)"),
    _flag("--tlsca", metavar="FILE", help="certificates of the authority ($NATS_CA)"),
    _flag(
        "--tlsfirst",
        action="store_true",
        help="begin with TLS, before the server speaks",
        other=("--tls-first",),
    ),
    _flag("--timeout", metavar="TIME", help='for each answer: "5s", "250ms", 5 ($NATS_TIMEOUT)'),
    _flag("--js-domain", metavar="NAME", help="JetStream domain", other=("--domain",)),
    _flag("--js-api-prefix", metavar="SUBJECT", help="prefix of the JetStream API"),
    _flag("--inbox-prefix", metavar="SUBJECT", help="prefix of inboxes"),
    _flag("--socks-proxy", metavar="URL", help="SOCKS proxy ($NATS_SOCKS_PROXY)"),
    _flag("--proxy", metavar="URL", help="http, https, socks5 or socks5h proxy"),
    _flag("--connection-name", metavar="NAME", help='name of the connection (default: "jetsync")'),
)
OUTPUT = (
    _flag("-j", "--json", action="store_true", help="print JSON"),
    _flag("-q", "--quiet", action="store_true", help="print results only"),
    _flag("--no-color", action="store_true", help="no colours ($NO_COLOR)"),
    _flag("--trace", action="store_true", help="log events and the protocol to stderr"),
)
