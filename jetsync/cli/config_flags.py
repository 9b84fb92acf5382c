"""Flags that stand for the fields of a configuration, and ``--config FILE`` below them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import Argument, argument

__all__ = ["CONFIG", "CONSUMER", "DEFAULTS", "STREAM", "config_fields", "flag"]


def flag(field: str, *names: str, **options: Any) -> Argument:
    """Declare a flag for a field; without the flag the field keeps its value."""
    return argument(*names, dest=f"field_{field}", default=argparse.SUPPRESS, **options)


def _switch(field: str, name: str, help: str, *other: str) -> Argument:
    """A flag with its opposite: --allow-direct, --no-allow-direct."""
    return flag(field, name, action=argparse.BooleanOptionalAction, help=help, other=other)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _source(text: str) -> dict[str, str]:
    return {"name": text}


def _work(text: str) -> str:
    return {"work": "workqueue"}.get(text, text)


DEFAULTS = argument("--defaults", action="store_true", help=argparse.SUPPRESS)
"""Taken and not used: with it the ``nats`` command asks for no fields, and this one never does."""

CONFIG = argument("--config", metavar="FILE", help='configuration as JSON, "-": standard input')

STREAM = (
    flag("subjects", "--subjects", type=_listed, metavar="A,B", help="subjects it stores"),
    flag("description", "--description", metavar="TEXT", help="what it is for"),
    flag("storage", "--storage", choices=("file", "memory"), help="where messages are kept"),
    flag("num_replicas", "--replicas", type=int, metavar="N", help="copies in a cluster"),
    flag(
        "retention",
        "--retention",
        type=_work,
        metavar="limits|interest|work",
        help="what ends the life of a message",
    ),
    flag("discard", "--discard", choices=("old", "new"), help="what a full stream does"),
    flag("max_msgs", "--max-msgs", type=int, metavar="N", help="most messages, -1: no limit"),
    flag(
        "max_msgs_per_subject", "--max-msgs-per-subject", type=int, metavar="N", help="per subject"
    ),
    flag("max_bytes", "--max-bytes", type=values.size, metavar="SIZE", help="most bytes"),
    flag("max_age", "--max-age", type=values.duration, metavar="TIME", help="life of a message"),
    flag("max_msg_size", "--max-msg-size", type=values.size, metavar="SIZE", help="of a message"),
    flag("max_consumers", "--max-consumers", type=int, metavar="N", help="most consumers"),
    flag(
        "duplicate_window",
        "--dupe-window",
        type=values.duration,
        metavar="TIME",
        help="how long message ids are remembered",
    ),
    flag("compression", "--compression", choices=("none", "s2"), help="of the files"),
    flag("first_seq", "--first-sequence", type=int, metavar="SEQ", help="begin with this number"),
    flag("mirror", "--mirror", type=_source, metavar="STREAM", help="copy this stream"),
    flag(
        "sources",
        "--source",
        type=_source,
        action="append",
        metavar="STREAM",
        help="take messages from this stream; may be repeated",
    ),
    _switch("allow_direct", "--allow-direct", "any replica may answer reads"),
    _switch("allow_rollup_hdrs", "--allow-rollup", "a message may replace those before it"),
    _switch("deny_delete", "--deny-delete", "messages cannot be deleted one by one"),
    _switch("deny_purge", "--deny-purge", "messages cannot be purged"),
    _switch("allow_msg_ttl", "--allow-msg-ttl", "messages may have a life of their own"),
    _switch("allow_atomic", "--allow-batch", "atomic batches"),
    _switch("allow_batched", "--allow-fast-batch", "fast ingest", "--allow-fast"),
    _switch("allow_msg_counter", "--allow-counter", "messages are counters"),
    _switch("allow_msg_schedules", "--allow-schedules", "messages may be schedules"),
    _switch("no_ack", "--no-ack", "publishers get no confirmation"),
    _switch("mirror_direct", "--allow-mirror-direct", "a mirror may answer reads of its origin"),
    _switch("discard_new_per_subject", "--discard-per-subject", "a full subject refuses new ones"),
    flag(
        "subject_delete_marker_ttl",
        "--subject-del-markers-ttl",
        type=values.duration,
        metavar="TIME",
        help="life of the markers of messages whose time is over",
    ),
    flag("persist_mode", "--persist-mode", choices=("default", "async"), help="when it is stored"),
    flag("placement_cluster", "--cluster", metavar="NAME", help="place it in this cluster"),
    flag(
        "placement_tags",
        "--tag",
        action="append",
        metavar="TAG",
        help="place it on servers with this tag; may be repeated",
        other=("--tags",),
    ),
    flag("metadata", "--metadata", action="append", metavar="KEY=VALUE", help="may be repeated"),
)

CONSUMER = (
    flag("description", "--description", metavar="TEXT", help="what it is for"),
    flag(
        "filter_subjects",
        "--filter",
        action="append",
        metavar="SUBJECT",
        help="deliver these subjects only; may be repeated",
    ),
    flag("ack_policy", "--ack", choices=("explicit", "all", "none"), help="what acknowledges"),
    flag("ack_wait", "--wait", type=values.duration, metavar="TIME", help="time to acknowledge"),
    flag("max_deliver", "--max-deliver", type=int, metavar="N", help="most deliveries, -1: any"),
    flag(
        "max_ack_pending",
        "--max-pending",
        type=int,
        metavar="N",
        help="most unacknowledged",
        other=("--max-outstanding",),
    ),
    flag("max_waiting", "--max-waiting", type=int, metavar="N", help="most waiting pulls"),
    flag("max_batch", "--max-pull-batch", type=int, metavar="N", help="most messages of a pull"),
    flag("max_expires", "--max-pull-expire", type=values.duration, metavar="TIME", help="of it"),
    flag(
        "backoff",
        "--backoff",
        type=lambda text: [values.duration(part) for part in text.split(",")],
        metavar="T1,T2",
        help="pauses before redeliveries",
    ),
    flag("max_bytes", "--max-pull-bytes", type=values.size, metavar="SIZE", help="most of a pull"),
    flag("rate_limit_bps", "--bps", type=int, metavar="N", help="push: most bits a second"),
    flag("sample_freq", "--sample", metavar="PERCENT", help="tell of so many acknowledgements"),
    flag("replay_policy", "--replay", choices=("instant", "original"), help="how fast"),
    _switch("headers_only", "--headers-only", "deliver no data"),
    flag(
        "inactive_threshold",
        "--inactive-threshold",
        type=values.duration,
        metavar="TIME",
        help="remove it when unused for so long",
    ),
    flag("num_replicas", "--replicas", type=int, metavar="N", help="0: those of the stream"),
    _switch("mem_storage", "--memory", "keep its state in memory"),
    flag("priority_groups", "--priority-groups", type=_listed, metavar="A,B", help="their names"),
    flag(
        "priority_policy",
        "--priority-policy",
        metavar="POLICY",
        help="pinned_client, overflow or prioritized",
    ),
    flag("deliver_subject", "--target", metavar="SUBJECT", help="push: where to deliver"),
    flag("deliver_group", "--deliver-group", metavar="NAME", help="push: queue group"),
    flag("idle_heartbeat", "--heartbeat", type=values.duration, metavar="TIME", help="push"),
    _switch("flow_control", "--flow-control", "push: flow control"),
    flag("metadata", "--metadata", action="append", metavar="KEY=VALUE", help="may be repeated"),
)


def config_fields(args: argparse.Namespace, kind: Any) -> dict[str, Any]:
    """Return the fields that the file and the flags give; flags win. ``kind`` is the class of the
    configuration, which reads the file as a server writes it."""
    given = {
        name.removeprefix("field_"): value
        for name, value in vars(args).items()
        if name.startswith("field_")
    }
    placement = {
        name: given.pop(f"placement_{name}")
        for name in ("cluster", "tags")
        if f"placement_{name}" in given
    }
    if placement:
        given["placement"] = placement
    if "metadata" in given:
        given["metadata"] = values.metadata(given["metadata"])
    return {**_from_file(getattr(args, "config", None), kind), **given}


def _from_file(path: str | None, kind: Any) -> dict[str, Any]:
    if not path:
        return {}
    try:
        if path == "-":
            found: object = json.loads(values.read_body("-"))
        else:
            found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {path}: {error}") from None
    if not isinstance(found, Mapping):
        raise UsageError(f"--config {path} must hold a JSON object.")
    # An info holds its configuration, so the output of "info --json" can be used here.
    inner = found.get("config", found)
    read = kind.from_wire(inner if isinstance(inner, Mapping) else found)
    return {name: getattr(read, name) for name in read.to_wire()}
