"""The declaration of ``jetsync demo``: its options, without what its work imports."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.progress import display
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS", "DemoOptions"]


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of the demo."""

    servers: str | None = None
    credentials: Path | None = None
    port: int = 0
    master: str = "local[2,4]"
    out: Path = Path("demo-out")
    rows: int | None = None
    batch_rows: int = 100_000
    keep: bool = False


def run(invocation: Invocation) -> int:
    """Carry out the command; return its exit code."""
    options, out = _checked(invocation.args), invocation.out
    from jetsync.cli.demo import Demo

    with display(color=out.color) as progress:
        report = Demo(options, progress).run()
    if out.json:
        out.show(report.document(), "")
    else:
        for view in report.views():
            out.show(None, view)
    return 0 if report.passed else 1


def _checked(args: argparse.Namespace) -> DemoOptions:
    for name in ("rows", "batch_rows"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {value}.")
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port must be between 0 and 65535, got {args.port}.")
    credentials = args.credentials
    if credentials is not None and not credentials.is_file():
        raise UsageError(f"--credentials: there is no file {credentials}.")
    fields = DemoOptions.__dataclass_fields__
    return DemoOptions(**{name: getattr(args, name) for name in fields})


_DEFAULTS = DemoOptions()

COMMANDS = (
    Command(
        "demo",
        "run a whole JetStream and Spark pipeline on real data and check it",
        run,
        (
            argument("--servers", metavar="URL", help="use this NATS server, not an embedded one"),
            argument("--credentials", metavar="FILE", type=Path, help=".creds file for --servers"),
            argument(
                "--port",
                type=int,
                default=_DEFAULTS.port,
                help="port of the embedded server (default: any)",
            ),
            argument(
                "--master",
                default=_DEFAULTS.master,
                help="where Spark runs (default: %(default)s)",
            ),
            argument(
                "--out",
                metavar="DIR",
                type=Path,
                default=_DEFAULTS.out,
                help="folder for results, logs and scratch files (default: %(default)s); "
                "with another --master it must be visible to all of its machines",
            ),
            argument(
                "--rows",
                type=int,
                metavar="N",
                help="only the first N flights of the year (default: all)",
            ),
            argument(
                "--batch-rows",
                type=int,
                metavar="N",
                default=_DEFAULTS.batch_rows,
                help="rows in one of Spark's micro-batches (default: %(default)s)",
            ),
            argument(
                "--keep", action="store_true", help="keep the streams and scratch files afterwards"
            ),
        ),
        example="jetsync demo --rows 20000",
        description=(
            "Load 336,776 real flights into JetStream, read them with Spark, publish daily "
            "results back, read those with a plain consumer, and compare all of it with pandas."
        ),
        connects=False,
    ),
)
