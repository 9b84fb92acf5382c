"""``jetsync worker``: run handlers until a signal, and bring dead letters back."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._counted import counted
from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields
from jetsync.cli.registry import Command, argument

if TYPE_CHECKING:
    from jetsync.worker import Worker

__all__ = ["COMMANDS"]

_FLAGS = (
    "threads",
    "processes",
    "key",
    "dead_letter",
    "ack_sync",
    "prefetch",
    "crash_tries",
    "max_runtime",
    "drain_timeout",
    "http",
)


def run(invocation: Invocation) -> int:
    """Carry out ``jetsync worker``; 0 when all that had begun was finished, else 1."""
    from jetsync.worker.running import run_all

    args = invocation.args
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    flags = {name: getattr(args, name) for name in _FLAGS}
    given = {name: value for name, value in flags.items() if value is not None}
    workers = [_worker(invocation, target, given) for target in args.targets]
    reports = run_all(workers)
    for target, report in zip(args.targets, reports, strict=True):
        invocation.out.note(
            f"{target}: {report.reason} after {report.seconds:.0f} s: {report.done} done, "
            f"{report.retried} retried, {counted(report.dead, 'dead letter')}, "
            f"{report.terminated} terminated, {report.released} released, "
            f"{report.unfinished} unfinished"
        )
    asked = {"SIGTERM", "SIGINT"}
    is_good = any(r.reason in asked for r in reports) and not any(r.unfinished for r in reports)
    return 0 if is_good else 1


def _worker(invocation: Invocation, target: str, given: dict[str, Any]) -> Worker:
    from jetsync.worker import Worker, WorkSource
    from jetsync.worker.options import task_of

    handler = load(target)
    args = invocation.args
    stream, consumer, options = task_of(handler) or (None, None, {})
    stream, consumer = args.stream or stream, args.consumer or consumer
    if stream is None or consumer is None:
        raise UsageError(
            f"{target} does not say where its messages come from: mark it with "
            "@jetsync.worker.task(stream=, consumer=), or give --stream and --consumer."
        )
    options = {**options, **given}
    if options.get("processes", 1) > 1:
        source: Any = WorkSource(stream, consumer, options=invocation.options())
    else:
        source = invocation.jetstream().consumer(stream, consumer)
    return Worker(source, handler, **options)


def load(target: str) -> Callable[[Any], Any]:
    """Import ``module:function``. Raises UsageError."""
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{target!r} is not of the form module:function.")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"there is no module {module!r} here or among those installed.") from None
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise UsageError(f"module {module!r} has no {name!r}.")
    if not callable(found):
        raise UsageError(f"{target} is not a function.")
    handler: Callable[[Any], Any] = found
    return handler


def run_replay(invocation: Invocation) -> None:
    """Carry out ``jetsync worker replay``."""
    from jetsync.worker import replay

    stream, subject = invocation.args.letters, invocation.args.subject
    count = replay(invocation.jetstream(), stream, subject=subject)
    invocation.out.show(
        {"stream": stream, "replayed": count},
        lambda: Fields(f"dead letters of {stream}", {"": {"Replayed": str(count)}}),
    )


COMMANDS = (
    Command(
        "run",
        "call a function with each message of a consumer, until a signal",
        run,
        (
            argument("targets", metavar="MODULE:FUNCTION", nargs="+", help="the handler to call"),
            argument("--stream", help="its stream (default: as its task mark says)"),
            argument("--consumer", help="its consumer (default: as its task mark says)"),
            argument("--threads", type=int, metavar="N", help="handlers at a time (default: 8)"),
            argument("--processes", type=int, metavar="N", help="processes (default: 1)"),
            argument("--key", help="keep the order: subject, subject:N or header:NAME"),
            argument("--dead-letter", metavar="SUBJECT", help="where final failures are stored"),
            argument(
                "--ack-sync",
                action="store_const",
                const=True,
                help="wait for the confirmation of each acknowledgement",
            ),
            argument("--prefetch", type=int, metavar="N", help="messages held at a time"),
            argument(
                "--crash-tries",
                type=int,
                metavar="N",
                help="deliveries after which a message that kills its process is given up",
            ),
            argument("--max-runtime", type=float, metavar="SECONDS", help="for one message"),
            argument("--drain-timeout", type=float, metavar="SECONDS", help="at the end"),
            argument("--http", metavar="HOST:PORT", help="answer /livez, /readyz and /metrics"),
        ),
        example="jetsync worker shop.orders:handle --threads 16 --dead-letter 'dead.{stream}'",
        description=(
            "Call functions with the messages of their consumers and acknowledge what they have "
            "dealt with. The current folder is on the module path. SIGTERM or Ctrl-C: no more "
            "messages are taken, handlers that run may finish; exit code 0, or 1 when some did not."
        ),
        default=True,
    ),
    Command(
        "replay",
        "publish dead letters to the subjects they came from, and delete them",
        run_replay,
        (
            argument("letters", metavar="STREAM", help="the stream of dead letters"),
            argument("--subject", help="only those with this subject, wildcards allowed"),
        ),
        example="jetsync worker replay DEAD --subject 'dead.ORDERS.>'",
    ),
)
