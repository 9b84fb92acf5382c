"""``jetsync server run``: a nats-server, or a cluster of them, in the foreground until Ctrl-C."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from jetsync.cli import interrupts, server_report
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

if TYPE_CHECKING:
    from jetsync.server import NatsCluster, NatsServer

__all__ = ["COMMANDS"]

_PORT = 4222
_CHECK_EVERY = 0.5


def run(invocation: Invocation) -> int:
    """Carry out the command; return its exit code. Ctrl-C is how it is meant to end."""
    from jetsync.server import NatsCluster

    running = _make(invocation.args)
    servers = running.servers if isinstance(running, NatsCluster) else [running]
    try:
        with interrupts.deferred():
            running.start()
        print(running.url, flush=True)
        while True:
            for server in servers:
                if server.wait(_CHECK_EVERY / len(servers)):
                    raise CommandError(_last_words(server))
    except interrupts.Terminated:
        raise
    except KeyboardInterrupt:
        return 0
    finally:
        with interrupts.deferred():
            running.stop()


def _make(args: argparse.Namespace) -> NatsServer | NatsCluster:
    from jetsync.server import NatsCluster, NatsServer

    if args.cluster is None:
        port = _PORT if args.port is None else args.port
        return NatsServer(port=port, store_dir=args.store_dir)
    if args.port is not None:
        raise UsageError("--port goes with a single server; a cluster takes free ports.")
    return NatsCluster(args.cluster, store_dir=args.store_dir)


def _last_words(server: NatsServer) -> str:
    lines = server.log.strip().splitlines()
    return f"{server.name} has ended by itself" + (f": {lines[-1]}" if lines else ".")


COMMANDS = (
    Command(
        "run",
        "run a nats-server with JetStream until Ctrl-C",
        run,
        (
            argument("--port", type=int, help=f"port for clients, 0 for any (default: {_PORT})"),
            argument(
                "--store-dir",
                metavar="DIR",
                type=Path,
                help="folder for the streams, kept afterwards (default: a temporary one)",
            ),
            argument(
                "--cluster", metavar="N", type=int, help="run a cluster of N servers, on free ports"
            ),
        ),
        example="jetsync server --port 4222 --store-dir ./jetstream",
        description=(
            "Run a real nats-server with JetStream on 127.0.0.1 until Ctrl-C; "
            "its URL is the one line on standard output. It asks for no login: every user of "
            "this machine can connect."
        ),
        connects=False,
        default=True,
    ),
    *server_report.COMMANDS,
)
