"""Flags that stand for the fields of a configuration, and ``--config FILE`` below them."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import Argument, argument
from jetsync.cli.output import Table

__all__ = [
    "BUCKET",
    "BUCKET_REMOVALS",
    "CONFIG",
    "CONSUMER",
    "DEFAULTS",
    "MIRROR",
    "REMOVALS",
    "STORAGE",
    "STORE",
    "STREAM",
    "changed_fields",
    "changes",
    "config_fields",
    "flag",
    "is_given",
]


def flag(field: str, *names: str, **options: Any) -> Argument:
    """Declare a flag for a field, or for a part of one ("republish.dest"); without the flag it
    keeps its value."""
    return argument(*names, dest=f"field_{field}", default=argparse.SUPPRESS, **options)


def _switch(field: str, name: str, help: str, *other: str) -> Argument:
    """A flag with its opposite: --allow-direct, --no-allow-direct."""
    return flag(field, name, action=argparse.BooleanOptionalAction, help=help, other=other)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _source(text: str) -> dict[str, str]:
    return {"name": text}


def _work(text: str) -> str:
    return {"work": "workqueue", "workq": "workqueue"}.get(text, text)


def _storage(text: str) -> str:
    return {"f": "file", "m": "memory"}.get(text, text)


DEFAULTS = argument("--defaults", action="store_true", help=argparse.SUPPRESS)
"""Taken and not used: with it the ``nats`` command asks for no fields, and this one never does."""

CONFIG = argument("--config", metavar="FILE", help='configuration as JSON, "-": standard input')

STORAGE = flag(
    "storage", "--storage", type=_storage, choices=("file", "memory"), help="where it is kept"
)
_PLACEMENT = (
    flag("placement.cluster", "--cluster", metavar="NAME", help="place it in this cluster"),
    flag(
        "placement.tags",
        "--tag",
        action="append",
        metavar="TAG",
        help="place it on servers with this tag; may be repeated",
        other=("--tags",),
    ),
)
_REPUBLISH = (
    flag(
        "republish.src",
        "--republish-source",
        metavar="SUBJECT",
        help="publish these again once they are stored (default: all)",
    ),
    flag(
        "republish.dest",
        "--republish-destination",
        metavar="SUBJECT",
        help='where they are published again, such as "copy.>"',
    ),
    flag(
        "republish.headers_only",
        "--republish-headers",
        action="store_true",
        help="publish only their headers again",
    ),
)
_METADATA = flag(
    "metadata", "--metadata", action="append", metavar="KEY=VALUE", help="may be repeated"
)


def _removal(field: str, name: str, help: str) -> Argument:
    return flag(field, name, action="store_const", const=None, help=help)


BUCKET_REMOVALS = (
    _removal("mirror", "--no-mirror", "be a copy no longer"),
    _removal("republish", "--no-republish", "publish nothing again"),
)
REMOVALS = (
    *BUCKET_REMOVALS,
    _removal("subject_transform", "--no-transform", "keep subjects as they are"),
)
"""Flags that take a field away; they go with a stream that exists."""

STREAM = (
    flag("subjects", "--subjects", type=_listed, metavar="A,B", help="subjects it stores"),
    flag("description", "--description", metavar="TEXT", help="what it is for"),
    STORAGE,
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
    flag("mirror.name", "--mirror", metavar="STREAM", completes="stream", help="copy this stream"),
    flag(
        "sources",
        "--source",
        type=_source,
        action="append",
        metavar="STREAM",
        completes="stream",
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
    flag(
        "subject_transform.src",
        "--transform-source",
        metavar="SUBJECT",
        help="rename these before they are stored (default: all)",
    ),
    flag(
        "subject_transform.dest",
        "--transform-destination",
        metavar="SUBJECT",
        help='their new subject, such as "a.{{wildcard(1)}}"',
    ),
    *_REPUBLISH,
    flag(
        "consumer_limits.inactive_threshold",
        "--limit-consumer-inactive",
        type=values.duration,
        metavar="TIME",
        help="longest --inactive-threshold of its consumers",
    ),
    flag(
        "consumer_limits.max_ack_pending",
        "--limit-consumer-max-pending",
        type=int,
        metavar="N",
        help="highest --max-pending of its consumers",
    ),
    *_PLACEMENT,
    _METADATA,
)

STORE = (
    flag("ttl", "--ttl", type=values.duration, metavar="TIME", help="life of what is put there"),
    flag("replicas", "--replicas", type=values.count, metavar="N", help="copies in a cluster"),
    flag("max_bytes", "--max-bucket-size", type=values.size, metavar="SIZE", help="of all of it"),
    flag("description", "--description", metavar="TEXT", help="what it is for"),
    _switch("compression", "--compress", "compress the files"),
    *_PLACEMENT,
    _METADATA,
)
"""Fields of an object store that can be changed; a key-value bucket has them too."""

BUCKET = (
    flag("history", "--history", type=values.count, metavar="N", help="values kept for each key"),
    flag(
        "max_value_size", "--max-value-size", type=values.size, metavar="SIZE", help="of one value"
    ),
    flag(
        "limit_marker_ttl",
        "--marker-ttl",
        type=values.duration,
        metavar="TIME",
        help="life of delete markers",
    ),
    flag(
        "sources",
        "--source",
        type=_source,
        action="append",
        metavar="BUCKET",
        completes="bucket",
        help="take the values of this bucket too; may be repeated",
    ),
    *STORE,
    STORAGE,
    *_REPUBLISH,
)
"""Fields of a key-value bucket."""

MIRROR = (
    flag("mirror.name", "--mirror", metavar="BUCKET", completes="bucket", help="copy this bucket"),
    flag("mirror.domain", "--mirror-domain", metavar="NAME", help="JetStream domain of that one"),
)
"""Flags of a new bucket: a mirror does not change its origin."""

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
    _METADATA,
)

_NEEDED = {
    "republish": ("dest", "--republish-destination"),
    "subject_transform": ("dest", "--transform-destination"),
    "mirror": ("name", "--mirror"),
}
"""The part without which the others of a field mean nothing, and its flag."""


def is_given(args: argparse.Namespace) -> bool:
    """Return whether there is a flag for a field, or a file."""
    return bool(getattr(args, "config", None)) or any(
        name.startswith("field_") for name in vars(args)
    )


def config_fields(args: argparse.Namespace, kind: Any, before: Any = None) -> dict[str, Any]:
    """Return the fields that the file and the flags give; flags win. ``kind`` is the class of the
    configuration, which reads the file as a server writes it; ``before`` the configuration that is
    changed, of which parts without a flag stay. Raises UsageError."""
    found = _from_file(getattr(args, "config", None), kind)
    given = {
        name.removeprefix("field_"): value
        for name, value in vars(args).items()
        if name.startswith("field_")
    }
    if "metadata" in given:
        given["metadata"] = values.metadata(given["metadata"])
    parts: dict[str, dict[str, Any]] = {}
    for name in [one for one in given if "." in one]:
        field, _, part = name.partition(".")
        parts.setdefault(field, {})[part] = given.pop(name)
    for field, changes in parts.items():
        if field in given:
            raise UsageError("a --no- flag removes what other flags set: give only one of them.")
        whole = {**_parts_of(found.get(field, getattr(before, field, None))), **changes}
        part, name = _NEEDED.get(field, ("", ""))
        if part and not whole.get(part):
            raise UsageError(f"the flags that belong to {name} go with it only: give it too.")
        given[field] = whole
    return {**found, **given}


def changed_fields(before: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the fields that would change a configuration, as it would have them."""
    after = dataclasses.replace(before, **fields)
    return {
        name: getattr(after, name)
        for name in fields
        if getattr(before, name) != getattr(after, name)
    }


def changes(before: Any, changed: Mapping[str, Any]) -> Table:
    """Return what would be changed of a configuration, for ``--dry-run``."""
    rows = [(name, getattr(before, name), value) for name, value in changed.items()]
    return Table(("FIELD", "NOW", "THEN"), rows, "nothing would change")


def _parts_of(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
    return {name: getattr(value, name) for name in names}


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
