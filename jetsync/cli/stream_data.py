"""``jetsync stream find|backup|restore|copy``: streams as a whole."""

from __future__ import annotations

import argparse
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jetsync._counted import counted
from jetsync.cli import stream_views as views
from jetsync.cli import values
from jetsync.cli.config_flags import CONFIG, STREAM, config_fields
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.flags import PROGRESS
from jetsync.cli.interrupts import deferred
from jetsync.cli.invocation import Invocation
from jetsync.cli.progress import progress
from jetsync.cli.registry import Command, argument
from jetsync.errors import Error

__all__ = ["COMMANDS"]

_STREAM = argument("STREAM", completes="stream", help="name of the stream")
_ASK_AGAIN = 0.1
_STALLED = 30.0
"""Seconds without another message after which a copy has failed."""
_ALL_SENT = 3.0
"""The same when the source has nothing more to send."""


def _find(invocation: Invocation) -> None:
    args = invocation.args
    now = datetime.now(timezone.utc)

    def old(when: datetime | None, limit: float) -> bool:
        return when is None or when.year <= 1 or (now - when).total_seconds() >= limit

    def fits(info: Any) -> bool:
        state, config = info.state, info.config
        leader = info.cluster.leader if info.cluster else None
        return all(
            (
                not args.empty or not state.messages,
                args.idle is None or old(state.last_ts, args.idle),
                args.created is None or old(info.created, args.created),
                args.consumers is None or state.consumer_count <= args.consumers,
                args.replicas is None or config.num_replicas <= args.replicas,
                not args.sourced or bool(config.sources),
                not args.mirrored or config.mirror is not None,
                args.leader is None or leader == args.leader,
                args.cluster is None or (info.cluster and info.cluster.name == args.cluster),
            )
        )

    found = [
        info
        for info in invocation.jetstream().streams(args.subject)
        if fits(info) is not args.invert
    ]
    found.sort(key=lambda info: info.config.name)
    if args.names:
        names = [info.config.name for info in found]
        invocation.out.names(names, views.EMPTY)
        return
    invocation.out.show(found, lambda: views.table(found))


def _backup(invocation: Invocation) -> None:
    args, js = invocation.args, invocation.jetstream()
    stream = js.stream(args.stream)
    with progress(invocation, f"backup of {args.stream}", is_bytes=True) as tell:
        made = stream.backup(
            args.folder,
            consumers=not args.no_consumers,
            check=args.check,
            chunk_size=args.chunk_size,
            progress=None if tell is None else lambda done, _: tell(done, 0),
        )
    size = values.format_size(made.bytes)
    number = counted(made.state.messages, "message", form=",")
    invocation.out.show(
        {
            "stream": args.stream,
            "folder": str(Path(args.folder)),
            "messages": made.state.messages,
            "bytes": made.bytes,
            "duration": round(made.seconds * 1e9),
        },
        f"wrote {number} of stream {args.stream} to {args.folder} ({size})",
    )


def _restore(invocation: Invocation) -> None:
    from jetsync.jetstream._wire import build
    from jetsync.jetstream.config.stream import StreamConfig
    from jetsync.jetstream.streams.backup import saved_config

    args = invocation.args
    fields = config_fields(args, StreamConfig)
    config = build(StreamConfig, saved_config(args.folder), fields) if fields else None
    with progress(invocation, f"restore of {args.folder}", is_bytes=True) as tell:
        stream = invocation.jetstream().restore_stream(args.folder, config=config, progress=tell)
    info = stream.cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _copy(invocation: Invocation) -> None:
    from jetsync.jetstream.config.stream import StreamConfig, StreamSource

    args, js = invocation.args, invocation.jetstream()
    fields = config_fields(args, StreamConfig)
    origin = js.stream(args.stream).cached_info
    before = origin.config
    if "subjects" not in fields and before.subjects and before.mirror is None:
        raise UsageError("two streams cannot store the same subjects: give --subjects.")
    fields["name"] = args.destination
    if not args.data:
        info = js.create_stream(before, **fields).cached_info
        invocation.out.show(info, lambda: views.fields(info))
        return
    if before.mirror is not None:
        raise UsageError("--data does not copy a mirror: copy the stream that it mirrors.")
    if "sources" in fields or "mirror" in fields:
        raise UsageError("--data does not go with sources or a mirror of the new stream.")
    if before.retention != "limits" or fields.get("retention") == "interest":
        raise UsageError(
            "--data copies between streams that keep messages by limits: with another retention "
            "they would be removed by the copying, or not kept."
        )
    # The servers copy: the new stream has the old one as a source until it has all of it. Sources
    # and first sequence of the old stream are no part of the copy, so last_seq counts what came.
    fields.update(sources=[StreamSource(name=args.stream)], first_seq=0)
    made = js.create_stream(before, **fields)
    try:
        with progress(invocation, f"copy of {args.stream}") as tell:
            _wait_until_copied(made, origin.state.messages, tell)
    except CommandError as error:
        raise CommandError(f"{error} {_detach(js, args.destination)}") from error
    except BaseException:
        with deferred():
            invocation.out.note(_detach(js, args.destination))
        raise
    info = js.update_stream(name=args.destination, sources=None).cached_info
    if info.state.messages < min(origin.state.messages, info.state.last_seq):
        raise CommandError(
            f"stream {args.destination} keeps {info.state.messages:,} of the "
            f"{counted(origin.state.messages, 'message', form=',')} that it got: see its limits."
        )
    invocation.out.show(info, lambda: views.fields(info))


def _wait_until_copied(made: Any, total: int, tell: Any) -> None:
    """Wait until a stream has got so many messages from its source. Raises CommandError when no
    more come."""
    got, since = 0, time.monotonic()
    while got < total:
        info = made.info()
        source = next(iter(info.sources or ()), None)
        if source is not None and source.error is not None:
            raise CommandError(f"it cannot be copied: {source.error.description}.")
        if info.state.last_seq > got:
            got, since = info.state.last_seq, time.monotonic()
        if tell is not None:
            tell(min(got, total), total)
        all_sent = source is not None and source.active is not None and not source.lag
        if time.monotonic() - since > (_ALL_SENT if all_sent else _STALLED):
            raise CommandError(
                f"{got:,} of {counted(total, 'message', form=',')} came, and no more do: see the "
                "limits of the new stream."
            )
        if got < total:
            time.sleep(_ASK_AGAIN)


def _detach(js: Any, name: str) -> str:
    """End the copying into a stream, and say what stays."""
    try:
        state = js.update_stream(name=name, sources=None).cached_info.state
    except Error as error:
        return f"Stream {name} stays, and may still copy its source ({error}): delete it."
    return f"Stream {name} stays with {counted(state.messages, 'message', form=',')}."


COMMANDS = (
    Command(
        "find",
        "list the streams that fit all of the given conditions",
        _find,
        (
            argument("--subject", metavar="FILTER", help="that store such subjects"),
            argument("--empty", action="store_true", help="without a message"),
            argument("--idle", type=values.duration, metavar="TIME", help="no new message so long"),
            argument("--created", type=values.duration, metavar="TIME", help="made so long ago"),
            argument("--consumers", type=int, metavar="N", help="with N consumers or fewer"),
            argument("--replicas", type=int, metavar="N", help="with N replicas or fewer"),
            argument("--sourced", action="store_true", help="with sources"),
            argument("--mirrored", action="store_true", help="that mirror another stream"),
            argument("--leader", metavar="SERVER", help="led by this server"),
            argument("--cluster", metavar="NAME", help="in this cluster"),
            argument("--invert", action="store_true", help="those that do not fit"),
            argument("-n", "--names", action="store_true", help="names only"),
        ),
        example="jetsync stream find --idle 7d --consumers 0",
        other=("query",),
    ),
    Command(
        "backup",
        "write a stream into a folder",
        _backup,
        (
            _STREAM,
            argument("FOLDER", help="where to write; must not hold a backup"),
            argument("--no-consumers", action="store_true", help="leave its consumers out"),
            argument("--consumers", action="store_true", help=argparse.SUPPRESS),  # the default
            PROGRESS,
            argument("--check", action="store_true", help="check every message first"),
            argument(
                "--chunk-size",
                type=values.size,
                default=131_072,
                metavar="SIZE",
                help="of the pieces that the server sends (default: 128K)",
            ),
        ),
        example="jetsync stream backup ORDERS backups/orders",
        description="Write a stream into a folder, which 'jetsync stream restore' and the nats "
        "command read.",
        other=("snapshot",),
    ),
    Command(
        "restore",
        "make a stream of a backup",
        _restore,
        (argument("FOLDER", help="folder of a backup"), CONFIG, *STREAM, PROGRESS),
        example="jetsync stream restore backups/orders --replicas 3",
        description="Make a stream of a backup, of jetsync or of the nats command. Flags replace "
        "fields of its configuration; the name stays.",
    ),
    Command(
        "copy",
        "create a stream with the configuration of another",
        _copy,
        (
            _STREAM,
            argument("DESTINATION", help="name of the new stream"),
            argument("--data", action="store_true", help="copy the messages too"),
            *STREAM,
        ),
        example="jetsync stream copy ORDERS ORDERS2 --subjects 'orders2.>' --data",
        description="Create a stream with the configuration of another, and with --data its "
        "messages too: the servers copy them, and they keep their subjects. Sources of the stream "
        "are not copied then. A copy that fails or is stopped leaves the new stream as it is.",
        aliases=("cp",),
    ),
)
