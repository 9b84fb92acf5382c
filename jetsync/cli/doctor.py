"""``jetsync doctor``: finds problems, and reports each in one sentence with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument
from jetsync.errors import Error, JetStreamNotEnabledError, PermissionsError

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.jetstream import JetStream
    from jetsync.jetstream.config.account import AccountInfo
    from jetsync.jetstream.config.consumer_info import ConsumerInfo
    from jetsync.jetstream.config.stream_info import StreamInfo

__all__ = ["COMMANDS", "Finding"]

_OLDEST = (2, 10)
_SLOW = 0.1
_SKEW = 1.0
_NEAR = 0.8
_SILENT = 60.0
_UNHEARD = 5.0
_LISTING = "allow this user $JS.API.CONSUMER.LIST.>, or ask again when the cluster is calm"


@dataclass(frozen=True)
class Finding:
    """One result: its subject, "ok", "warning" or "problem", a sentence, and a remedy."""

    about: str
    result: str
    text: str
    remedy: str | None = None


def run(invocation: Invocation) -> int:
    """Carry out the command; 1 if there is a problem."""
    found: list[Finding] = []
    nc = invocation.connect()
    found += _connection(nc)
    found += _extras()
    js = invocation.jetstream()
    try:
        found += _account(js.account_info())
        found += _streams(js, invocation.args.stream)
    except JetStreamNotEnabledError as error:
        found.append(
            Finding(
                "JetStream",
                "problem",
                str(error),
                "enable JetStream on the server and for the account, or give --js-domain",
            )
        )
    except PermissionsError as error:
        found.append(
            Finding(
                "permissions",
                "problem",
                f"the rest cannot be looked at: {error}",
                "allow this user that subject, or sign in as another one",
            )
        )
    bad = [one for one in found if one.result != "ok"]
    shown = found if invocation.args.all or not bad else bad
    invocation.out.show(found, lambda: _table(shown))
    if not invocation.args.all and bad:
        fine = counted(len(found) - len(bad), "other check is", "other checks are")
        invocation.out.note(f"{fine} fine (--all shows them)")
    return 1 if any(one.result == "problem" for one in found) else 0


def _table(found: list[Finding]) -> Table:
    rows: list[tuple[object, ...]] = []
    for one in found:
        rows.append((one.result, one.about, one.text))
        if one.remedy:
            rows.append(("", "", f"-> {one.remedy}"))
    styles = {"ok": "green", "warning": "yellow", "problem": "bold red"}
    return Table(("RESULT", "ABOUT", "FINDING"), rows, styles=styles)


# -- checks ----------------------------------------------------------------------------------------


def _connection(nc: Connection) -> Iterator[Finding]:
    info = nc.server_info
    assert info is not None  # connect() has returned
    version = tuple(
        int(part) for part in info.version.split("-")[0].split(".")[:2] if part.isdigit()
    )
    if version >= _OLDEST:
        yield Finding("server", "ok", f"{info.server_name} runs nats-server {info.version}")
    else:
        yield Finding(
            "server",
            "warning",
            f"{info.server_name} runs nats-server {info.version}, which is older than 2.10",
            "update the server: the library is tested with 2.10 and later",
        )
    seconds = min(nc.rtt() for _ in range(3))
    slow = seconds > _SLOW
    yield Finding(
        "connection",
        "warning" if slow else "ok",
        f"an answer takes {values.format_duration(seconds)}",
        "confirmed publishes one by one are slow here: use publish_async or publish_many"
        if slow
        else None,
    )
    if info.ldm:
        yield Finding(
            "server",
            "warning",
            f"{info.server_name} is about to shut down (lame duck)",
            "nothing: the connection moves to another server by itself, if it knows one",
        )


def _extras() -> Iterator[Finding]:
    from jetsync.cli.extras import extras

    found = extras()
    for extra in found:
        if extra.old:
            yield Finding(
                "extras",
                "warning",
                f"too old for jetsync[{extra.name}]: {', '.join(extra.old)}",
                f'pip install --upgrade "jetsync[{extra.name}]"',
            )
    missing = [extra.name for extra in found if extra.missing]
    if missing:
        names = ",".join(missing)
        text = f"not installed, which matters to programs that use them: {', '.join(missing)}"
        yield Finding("extras", "ok", text, f'pip install "jetsync[{names}]"')
    elif found:
        yield Finding("extras", "ok", "all of them are installed")


def _account(account: AccountInfo) -> Iterator[Finding]:
    limits = account.limits
    for name, used, most, text in (
        ("file storage", account.storage, limits.max_storage, values.format_size),
        ("memory", account.memory, limits.max_memory, values.format_size),
        ("streams", account.streams, limits.max_streams, str),
        ("consumers", account.consumers, limits.max_consumers, str),
    ):
        yield _share("account", name, used, most, text, "raise the limit, or delete what is old")


def _share(
    about: str, name: str, used: int, most: int, text: Callable[[int], str], remedy: str
) -> Finding:
    if most <= 0 or used < _NEAR * most:
        return Finding(about, "ok", f"{name}: {text(used)} used")
    full = used >= most
    said = f"{name}: {text(used)} of {text(most)} used" + (", which is all" if full else "")
    return Finding(about, "problem" if full else "warning", said, remedy)


def _streams(js: JetStream, only: str | None) -> Iterator[Finding]:
    skew = False
    for info in js.streams() if only is None else [js.stream(only).cached_info]:
        name = info.config.name
        if info.ts is not None and not skew:
            skew = True
            yield _clock(info.ts)
        found = list(_stream(info))
        try:
            for consumer in js.consumers(name):
                found += _consumer(info, consumer)
        except Error as error:
            text = f"its consumers cannot be listed: {error}"
            found.append(Finding(f"stream {name}", "problem", text, _LISTING))
        yield from found or [Finding(f"stream {name}", "ok", "it and its consumers are fine")]


def _clock(server: datetime) -> Finding:
    skew = (datetime.now(timezone.utc) - server).total_seconds()
    if abs(skew) < _SKEW:
        return Finding("clock", "ok", "this machine and the server agree on the time")
    way = "ahead of" if skew > 0 else "behind"
    return Finding(
        "clock",
        "warning",
        f"this machine is {values.format_duration(abs(skew))} {way} the server",
        "synchronise the clocks (NTP): times given by clients mean something else on the server",
    )


def _stream(info: StreamInfo) -> Iterator[Finding]:
    config, state, about = info.config, info.state, f"stream {info.config.name}"
    cluster = info.cluster
    if cluster is not None and config.num_replicas > 1 and not cluster.leader:
        yield Finding(
            about, "problem", "it has no leader, so it takes and gives nothing", "start its servers"
        )
    for peer in cluster.replicas if cluster else []:
        if peer.offline:
            yield Finding(
                about,
                "problem",
                f"its replica on {peer.name} is offline",
                "start that server, or remove the peer",
            )
        elif not peer.current and (peer.lag or (peer.active or 0.0) > _UNHEARD):
            lag = counted(peer.lag, "operation", form=",")
            heard = values.format_duration(peer.active or 0.0)
            yield Finding(
                about,
                "warning",
                f"its replica on {peer.name} is behind by {lag}, last heard of {heard} ago",
                "it catches up by itself; if it does not, look at disk and network of that server",
            )
    if state.lost is not None and state.lost.msgs:
        yield Finding(
            about,
            "problem",
            f"lost on disk: {counted(len(state.lost.msgs), 'message', form=',')}",
            "restore them from a backup",
        )
    if str(config.discard) == "new":
        for name, used, most, text in (
            ("messages", state.messages, config.max_msgs, str),
            ("bytes", state.bytes, config.max_bytes, values.format_size),
        ):
            found = _share(
                about, name, used, most, text, "it refuses messages when full: purge, or raise it"
            )
            if found.result != "ok":
                yield found
    for source in [*([info.mirror] if info.mirror else []), *(info.sources or [])]:
        if source.error:
            yield Finding(
                about,
                "problem",
                f"it cannot copy from {source.name}: {source.error.description}",
                "create that stream, or correct the configuration",
            )
        elif source.active is None or source.active > _SILENT:
            since = "nothing yet" if source.active is None else "nothing for a while"
            yield Finding(
                about,
                "warning",
                f"of {source.name}, which it copies, it has heard {since}",
                "see that this stream exists and can be reached from here",
            )


def _consumer(stream: StreamInfo, info: ConsumerInfo) -> Iterator[Finding]:
    config, about = info.config, f"consumer {stream.config.name}/{info.name}"
    waiting = f"unprocessed: {counted(info.num_pending, 'message', form=',')}"
    copies = config.num_replicas or stream.config.num_replicas
    if info.cluster is not None and copies > 1 and not info.cluster.leader:
        yield Finding(about, "problem", "it has no leader", "start its servers")
        return
    most = config.max_ack_pending or 0
    if str(config.ack_policy) != "none" and 0 < most <= info.num_ack_pending:
        yield Finding(
            about,
            "problem",
            f"unacknowledged: {counted(info.num_ack_pending, 'message', form=',')}, as many as "
            f"may be; {waiting}",
            "acknowledge, make handlers faster, or raise max_ack_pending",
        )
    elif info.paused:
        yield Finding(about, "warning", f"it is paused; {waiting}", "jetsync consumer resume")
    elif info.num_pending and config.deliver_subject and not info.push_bound:
        yield Finding(
            about,
            "problem",
            f"it delivers to a subject without subscribers; {waiting}",
            "start its subscriber, or delete it",
        )
    elif info.num_pending and not config.deliver_subject and not info.num_waiting:
        yield Finding(
            about,
            "warning",
            f"no client pulls from it; {waiting}",
            "start its workers, or delete it: streams of retention interest or workqueue grow",
        )
    if info.num_redelivered:
        yield Finding(
            about,
            "warning",
            f"delivered more than once: {counted(info.num_redelivered, 'message', form=',')}",
            f"handlers fail, or need longer than ack_wait "
            f"({values.format_duration(config.ack_wait or 30.0)}): use in_progress() or raise it",
        )
    window = stream.config.duplicate_window
    if window and config.ack_wait and window < config.ack_wait:
        yield Finding(
            about,
            "warning",
            f"the duplicate window of its stream ({values.format_duration(window)}) is shorter "
            f"than its ack_wait ({values.format_duration(config.ack_wait)})",
            "a handler that publishes with a message id can do so twice: lengthen the window",
        )


COMMANDS = (
    Command(
        "doctor",
        "find what is wrong with connection, account, streams and consumers",
        run,
        (
            argument("--all", action="store_true", help="show what is fine as well"),
            argument("--stream", completes="stream", help="look at this stream only"),
        ),
        example="jetsync doctor --all",
        description=(
            "Look at the connection, the account, and every stream and consumer, and say what is "
            "wrong in one sentence each, with a remedy. Nothing is changed. Exit code 1: a problem."
        ),
    ),
)
