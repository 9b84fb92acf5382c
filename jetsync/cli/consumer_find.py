"""``jetsync consumer find``: the consumers of a stream that fit conditions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from jetsync.cli import consumer_views as views
from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "pull": lambda info, _: not info.config.deliver_subject,
    "push": lambda info, _: bool(info.config.deliver_subject),
    "bound": lambda info, _: bool(info.push_bound or info.num_waiting),
    "pinned": lambda info, _: _is_pinned(info),
    "waiting": lambda info, most: info.num_waiting <= most,
    "ack_pending": lambda info, most: info.num_ack_pending <= most,
    "pending": lambda info, most: info.num_pending <= most,
    "idle": lambda info, seconds: _is_past(info.delivered.last_active, seconds),
    "created": lambda info, seconds: _is_past(info.created, seconds),
    "replicas": lambda info, most: _replicas(info) <= most,
    "leader": lambda info, name: info.cluster is not None and info.cluster.leader == name,
}
"""The condition of each flag: whether a consumer fits its value."""


def _is_pinned(info: Any) -> bool:
    """Whether every priority group has a client that is pinned."""
    groups = info.priority_groups or []
    return bool(info.config.priority_groups) and (
        sum(bool(group.pinned_client_id) for group in groups) == len(info.config.priority_groups)
    )


def _is_past(when: datetime | None, seconds: float) -> bool:
    """Whether it was so long ago, or never."""
    if when is None or when.year <= 1:
        return True
    return (datetime.now(timezone.utc) - when).total_seconds() >= seconds


def _replicas(info: Any) -> int:
    return 1 + len(info.cluster.replicas if info.cluster else ())


def _find(invocation: Invocation) -> None:
    args = invocation.args
    if args.pull and args.push:
        raise UsageError("give either --pull or --push.")
    given = {name: vars(args)[name] for name in _CONDITIONS}
    asked = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    found = [
        info
        for info in invocation.jetstream().consumers(args.stream)
        if all(_CONDITIONS[name](info, value) for name, value in asked.items()) is not args.invert
    ]
    found.sort(key=lambda info: info.name)
    if args.names:
        invocation.out.names([info.name for info in found], views.EMPTY)
        return
    invocation.out.show(found, lambda: views.table(found))


def _most(name: str, what: str) -> Any:
    return argument(name, type=int, metavar="N", help=f"with N {what} or fewer")


COMMANDS = (
    Command(
        "find",
        "list the consumers of a stream that fit all of the given conditions",
        _find,
        (
            argument("STREAM", completes="stream", help="name of the stream"),
            argument("--pull", action="store_true", help="that clients pull from"),
            argument("--push", action="store_true", help="that push"),
            argument("--bound", action="store_true", help="with a client that waits"),
            argument(
                "--pinned", action="store_true", help="with a pinned client in each priority group"
            ),
            _most("--waiting", "waiting pulls"),
            _most("--ack-pending", "unacknowledged messages"),
            _most("--pending", "unprocessed messages"),
            argument("--idle", type=values.duration, metavar="TIME", help="no delivery so long"),
            argument("--created", type=values.duration, metavar="TIME", help="made so long ago"),
            _most("--replicas", "replicas"),
            argument("--leader", metavar="SERVER", help="led by this server"),
            argument("--invert", action="store_true", help="those that do not fit"),
            argument("-n", "--names", action="store_true", help="names only"),
        ),
        example="jetsync consumer find ORDERS --pending 1000 --invert",
        other=("query",),
    ),
)
