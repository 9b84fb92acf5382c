"""``jetsync server report``: what the servers of a system say of their connections and streams."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_PAGE = 1024
_SILENCE = 1.0
"""Seconds without another answer after which all servers have answered, where it is not known how
many there are."""

_CONNECTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "subs": lambda one: -one.get("subscriptions", 0),
    "in-msgs": lambda one: -one.get("in_msgs", 0),
    "out-msgs": lambda one: -one.get("out_msgs", 0),
    "in-bytes": lambda one: -one.get("in_bytes", 0),
    "out-bytes": lambda one: -one.get("out_bytes", 0),
    "uptime": lambda one: one.get("start", ""),
    "cid": lambda one: one["cid"],
}
_SERVERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "cluster": lambda one: one["cluster"] or "",
    "name": lambda one: one["server"],
    "streams": lambda one: -one["streams"],
    "consumers": lambda one: -one["consumers"],
    "msgs": lambda one: -one["messages"],
    "bytes": lambda one: -one["bytes"],
    "mem": lambda one: -one["memory"],
    "file": lambda one: -one["storage"],
    "api": lambda one: -one["api"]["total"],
    "err": lambda one: -one["api"]["errors"],
}
_OTHER_ORDERS = {"mbytes": "bytes", "store": "file"}


def _report(invocation: Invocation) -> None:
    args = invocation.args
    show, orders = _REPORTS[args.what]
    order = _OTHER_ORDERS.get(args.sort, args.sort) or next(iter(orders))
    if order not in orders:
        raise UsageError(f"--sort is one of {', '.join(orders)} for {args.what}.")
    if args.what != "connections" and any((args.subject, args.username, args.state)):
        raise UsageError("--subject, --username and --state go with connections.")
    show(invocation, orders[order])


def _connections(invocation: Invocation, order: Callable[[dict[str, Any]], Any]) -> None:
    args = invocation.args
    found = list(_all_connections(invocation))
    found.sort(key=lambda one: (order(one), one["server"], one["cid"]), reverse=args.reverse)
    shown = found[: args.top]
    if len(shown) < len(found):
        invocation.out.note(f"the first {len(shown):,} of {len(found):,}")
    invocation.out.show(shown, lambda: _connection_table(shown, is_ended=_is_ended(args)))


def _is_ended(args: Any) -> bool:
    return args.state not in (None, "open")


def _all_connections(invocation: Invocation) -> Iterator[dict[str, Any]]:
    """Iterate over the connections of all servers, page by page."""
    args, offset, has_more = invocation.args, 0, True
    while has_more:
        asked = {
            "auth": True,
            "acc": args.account,
            "user": args.username,
            "filter_subject": args.subject,
            "state": ("open", "closed", "all").index(args.state or "open"),
            "limit": _PAGE,
            "offset": offset,
        }
        has_more, offset = False, offset + _PAGE
        for server, data in _answers(invocation, "CONNZ", asked):
            has_more = has_more or data["total"] > offset
            place = {"server": server["name"], "cluster": server.get("cluster")}
            yield from ({**place, **one} for one in data["connections"] or ())


def _connection_table(found: list[dict[str, Any]], *, is_ended: bool) -> Table:
    headings = ("CID", "NAME", "SERVER", "CLUSTER", "ADDRESS", "ACCOUNT", "USER", ">UPTIME")
    counts = (">IN MSGS", ">OUT MSGS", ">IN BYTES", ">OUT BYTES", ">SUBS")
    reason = ("REASON",) if is_ended else ()
    return Table(
        (*headings, *counts, *reason),
        [
            (
                str(one["cid"]),
                one.get("name") or one.get("mqtt_client"),
                one["server"],
                one["cluster"],
                f"{one.get('ip', '')}:{one.get('port', '')}",
                one.get("account"),
                one.get("authorized_user"),
                one.get("uptime"),
                one.get("in_msgs", 0),
                one.get("out_msgs", 0),
                values.format_size(one.get("in_bytes", 0)),
                values.format_size(one.get("out_bytes", 0)),
                one.get("subscriptions", 0),
                *([one.get("reason")] if is_ended else []),
            )
            for one in found
        ],
        "no connections",
    )


def _jetstream(invocation: Invocation, order: Callable[[dict[str, Any]], Any]) -> None:
    args = invocation.args
    asked = {"account": args.account, "streams": True} if args.account else {}
    found, peers = [], {}
    for server, data in _answers(invocation, "JSZ", asked):
        if data.get("disabled"):
            continue
        meta = data.get("meta_cluster") or {}
        if meta.get("leader") == server["name"]:
            peers = {peer["name"]: _state(peer) for peer in meta.get("replicas") or ()}
            peers[server["name"]] = "leader"
        found.append(_summary(server, data, args.account))
    for one in found:
        one["meta"] = peers.pop(one["server"], None)
    found.sort(key=lambda one: (order(one), one["server"]), reverse=args.reverse)
    # The leader takes a moment to see that a server is gone.
    silent = (
        []
        if args.host or args.cluster
        else [
            (name, state if state == "offline" else "no answer")
            for name, state in sorted(peers.items())
        ]
    )
    invocation.out.show(
        [*found[: args.top], *({"server": name, "meta": state} for name, state in silent)],
        lambda: _jetstream_table(found[: args.top], silent),
    )


def _summary(server: dict[str, Any], data: dict[str, Any], account: str | None) -> dict[str, Any]:
    """Return what one server has of JetStream, of all accounts or of one."""
    place = {"server": server["name"], "cluster": server.get("cluster")}
    if account is None:
        names = ("streams", "consumers", "messages", "bytes", "memory", "storage")
        return {**place, **{name: data.get(name, 0) for name in names}, "api": _api(data)}
    mine: dict[str, Any] = next(iter(data.get("account_details") or ()), {})
    states = [one["state"] for one in mine.get("stream_detail") or ()]
    return {
        **place,
        "streams": len(states),
        "consumers": sum(state["consumer_count"] for state in states),
        "messages": sum(state["messages"] for state in states),
        "bytes": sum(state["bytes"] for state in states),
        "memory": mine.get("memory", 0),
        "storage": mine.get("storage", 0),
        "api": _api(mine),
    }


def _api(data: dict[str, Any]) -> dict[str, int]:
    return {"total": 0, "errors": 0, **(data.get("api") or {})}


def _state(peer: dict[str, Any]) -> str:
    if peer.get("offline"):
        return "offline"
    if peer.get("lag"):
        return f"{peer['lag']:,} behind"
    return "current" if peer.get("current") else "behind"


def _jetstream_table(found: list[dict[str, Any]], silent: list[tuple[str, str]]) -> Table:
    headings = ("SERVER", "CLUSTER", ">STREAMS", ">CONSUMERS", ">MESSAGES", ">BYTES")
    rows: list[tuple[object, ...]] = [
        (
            one["server"],
            one["cluster"],
            one["streams"],
            one["consumers"],
            one["messages"],
            values.format_size(one["bytes"]),
            values.format_size(one["memory"]),
            values.format_size(one["storage"]),
            one["api"]["total"],
            one["api"]["errors"],
            one["meta"],
        )
        for one in found
    ]
    rows += [(name, *[None] * 9, state) for name, state in silent]
    return Table(
        (*headings, ">MEMORY", ">FILE", ">API REQUESTS", ">API ERRORS", "META GROUP"),
        rows,
        "no server has JetStream",
    )


_REPORTS = {
    "connections": (_connections, _CONNECTIONS),
    "jetstream": (_jetstream, _SERVERS),
}


def _answers(
    invocation: Invocation, what: str, asked: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Ask all servers; iterate over each that answered, and its answer. Raises CommandError."""
    from jetsync.errors import NoRespondersError

    args, nc = invocation.args, invocation.connect()
    wanted = {"server_name": args.host, "cluster": args.cluster, "exact_match": True, **asked}
    question = {name: value for name, value in wanted.items() if value is not None}
    answered = False
    try:
        most = None if args.host or args.cluster else _servers(nc)
        for msg in nc.request_many(
            f"$SYS.REQ.SERVER.PING.{what}",
            json.dumps(question).encode(),
            max_messages=most,
            stall=_SILENCE,
        ):
            answered = True
            answer = json.loads(msg.data)
            server = answer["server"]
            if (error := answer.get("error")) is not None:
                raise CommandError(f"{server['name']}: {error.get('description', error)}.")
            if (data := answer.get("data")) is not None:
                yield server, data
    except NoRespondersError:
        raise CommandError(
            "no server answers this user: sign in as one of the system account."
        ) from None
    if not answered:
        where = " of that name" if args.host else " of that cluster" if args.cluster else ""
        raise CommandError(f"no server{where} answered in time.")


def _servers(nc: Any) -> int | None:
    """Return how many servers there are; None where this user may not know."""
    from jetsync.errors import NoRespondersError

    try:
        answer = next(iter(nc.request_many("$SYS.REQ.SERVER.PING", max_messages=1)), None)
    except NoRespondersError:
        return None
    return None if answer is None else json.loads(answer.data)["statsz"]["active_servers"]


def _what(text: str) -> str:
    """Read which report is meant, also by the other names of the ``nats`` command."""
    names = {"conn": "connections", "conns": "connections", "connz": "connections"}
    names.update({"js": "jetstream", "jsz": "jetstream"})
    found = names.get(text, text)
    if found not in _REPORTS:
        raise argparse.ArgumentTypeError(f"must be connections or jetstream, not {text!r}")
    return found


COMMANDS = (
    Command(
        "report",
        "show connections, or what JetStream holds, on all servers",
        _report,
        (
            argument("WHAT", type=_what, help="connections, or jetstream"),
            argument("--account", metavar="NAME", help="of this account only"),
            argument("--host", metavar="SERVER", help="ask the server of this name only"),
            argument("--cluster", metavar="NAME", help="ask the servers of this cluster only"),
            argument(
                "--sort",
                metavar="ORDER",
                help="connections: subs (default), in-msgs, out-msgs, in-bytes, out-bytes, uptime, "
                "cid; jetstream: cluster (default), name, streams, consumers, msgs, bytes, mem, "
                "file, api, err; the most first",
            ),
            argument("-R", "--reverse", action="store_true", help="the other way round"),
            argument(
                "--top",
                type=values.count,
                default=1000,
                metavar="N",
                help="at most (default: 1000)",
            ),
            argument("--subject", metavar="FILTER", help="connections that listen to it"),
            argument("--username", metavar="NAME", help="connections of this user"),
            argument(
                "--state", choices=("open", "closed", "all"), help="of connections (default: open)"
            ),
        ),
        example="jetsync server report connections --sort out-bytes --top 20 --context system",
        description="Ask all servers for their connections, or for what JetStream holds there. A "
        "user of the system account sees everything; others see the connections of their own "
        "account, and nothing of JetStream.",
        other=("rep",),
    ),
)
