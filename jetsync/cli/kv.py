"""``jetsync kv``: key-value buckets."""

from __future__ import annotations

import argparse
from typing import Any

from jetsync._counted import counted
from jetsync.cli import kv_views as views
from jetsync.cli import values
from jetsync.cli.config_flags import (
    BUCKET,
    BUCKET_REMOVALS,
    MIRROR,
    config_fields,
    is_given,
)
from jetsync.cli.confirm import FORCE, confirm
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import argument
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command

__all__ = ["COMMANDS"]

_BUCKET = argument("BUCKET", completes="bucket", help="name of the bucket")
_KEY = argument("KEY", help="the key")
_VALUE = argument("VALUE", nargs="?", default="-", help='the value (default: "-", standard input)')


def _bucket(invocation: Invocation) -> Any:
    return invocation.jetstream().key_value(invocation.args.bucket)


def _ls(invocation: Invocation) -> None:
    args, js = invocation.args, invocation.jetstream()
    if args.bucket:
        bucket = _bucket(invocation)
        if args.values:
            entries = sorted(bucket.entries(), key=lambda entry: entry.key)
            _show_entries(invocation, entries)
            return
        keys = sorted(bucket.keys())
        invocation.out.names(keys, "no keys")
        return
    found = sorted(js.key_value_buckets(), key=lambda status: status.bucket)
    if args.names:
        invocation.out.names([status.bucket for status in found], "no buckets")
        return
    invocation.out.show([views.status(one) for one in found], lambda: views.table(found))


def _show(invocation: Invocation, bucket: Any) -> None:
    found = bucket.status()
    invocation.out.show(views.status(found), lambda: views.fields(found))


def _add(invocation: Invocation) -> None:
    from jetsync.kv.config import KeyValueConfig

    args = invocation.args
    fields = config_fields(args, KeyValueConfig)
    kv = invocation.jetstream().create_key_value(bucket=args.bucket, **fields)
    _show(invocation, kv)


def _edit(invocation: Invocation) -> None:
    from jetsync.kv.config import KeyValueConfig

    if not is_given(invocation.args):
        raise UsageError("nothing to change: give a flag.")
    kv = _bucket(invocation)
    before = kv.status().config
    fields = config_fields(invocation.args, KeyValueConfig, before)
    invocation.jetstream().update_key_value(before, **fields)
    _show(invocation, kv)


def _info(invocation: Invocation) -> None:
    _show(invocation, _bucket(invocation))


def _get(invocation: Invocation) -> None:
    args = invocation.args
    entry = _bucket(invocation).get(args.key, revision=args.revision)
    if invocation.out.json:
        invocation.out.item(views.entry(entry), str)
    else:
        shown = invocation.out.is_terminal and not args.raw
        text = f"{values.body_text(entry.value)}\n".encode() if shown else entry.value
        invocation.out.write(text)


def _put(invocation: Invocation) -> None:
    args = invocation.args
    _written(invocation, _bucket(invocation).put(args.key, values.read_body(args.value)))


def _create(invocation: Invocation) -> None:
    args = invocation.args
    data = values.read_body(args.value)
    _written(invocation, _bucket(invocation).create(args.key, data, ttl=args.ttl))


def _update(invocation: Invocation) -> None:
    args = invocation.args
    data = values.read_body(args.value)
    _written(invocation, _bucket(invocation).update(args.key, data, args.revision))


def _written(invocation: Invocation, revision: int) -> None:
    key = invocation.args.key
    invocation.out.show({"key": key, "revision": revision}, f"{key} has revision {revision:,}")


def _del(invocation: Invocation) -> None:
    args = invocation.args
    if args.key is None:
        confirm(invocation, f"Delete bucket {args.bucket} with all of its values?")
        invocation.jetstream().delete_key_value(args.bucket)
        invocation.out.show({"deleted": args.bucket}, f"deleted bucket {args.bucket}")
        return
    confirm(invocation, f"Delete key {args.key} of bucket {args.bucket}?")
    _written(invocation, _bucket(invocation).delete(args.key))


def _purge(invocation: Invocation) -> None:
    args = invocation.args
    confirm(invocation, f"Delete key {args.key} of bucket {args.bucket} with its history?")
    _written(invocation, _bucket(invocation).purge(args.key, ttl=args.ttl))


def _history(invocation: Invocation) -> None:
    _show_entries(invocation, _bucket(invocation).history(invocation.args.key))


def _watch(invocation: Invocation) -> None:
    args, out = invocation.args, invocation.out
    with _bucket(invocation).watch(
        args.key,
        include_history=args.history,
        updates_only=args.new,
        ignore_deletes=args.no_deletes,
        resume_from_revision=args.revision,
    ) as watcher:
        for number, entry in enumerate((one for one in watcher if one is not None), 1):
            out.item(views.entry(entry), lambda entry=entry: views.line(out, entry))  # type: ignore[misc]
            if number == args.count:
                return


def _compact(invocation: Invocation) -> None:
    args = invocation.args
    confirm(invocation, f"Remove the delete markers of bucket {args.bucket}?")
    number = _bucket(invocation).purge_deletes(older_than=args.older_than)
    invocation.out.show(
        {"removed": number}, f"removed {counted(number, 'message', form=',')} of deleted keys"
    )


def _show_entries(invocation: Invocation, found: list[Any]) -> None:
    invocation.out.show([views.entry(one) for one in found], lambda: views.entries(found))


def _revert(invocation: Invocation) -> None:
    args, bucket = invocation.args, _bucket(invocation)
    entry = bucket.get(args.key, revision=args.revision)
    confirm(invocation, f"Write the value of revision {args.revision:,} to key {args.key} again?")
    _written(invocation, bucket.put(args.key, entry.value))


_REVISION = argument("--revision", type=values.count, metavar="N", help="of this revision")

COMMANDS = (
    Command(
        "ls",
        "list buckets, or the keys of one",
        _ls,
        (
            argument("BUCKET", nargs="?", completes="bucket", help="list the keys of this one"),
            argument(
                "--values",
                action="store_true",
                help="show values as well",
                other=("-v", "--verbose", "--display-value"),
            ),
            argument("-n", "--names", action="store_true", help="names of buckets only"),
        ),
        example="jetsync kv ls CONFIG --values",
        aliases=("list",),
    ),
    Command(
        "add",
        "create a bucket",
        _add,
        (argument("BUCKET", help="its name"), *BUCKET, *MIRROR),
        example="jetsync kv add CONFIG --history 5 --replicas 3\n"
        "jetsync kv add NEAR --mirror CONFIG --mirror-domain hub",
        other=("new",),
    ),
    Command(
        "edit",
        "change the configuration of a bucket",
        _edit,
        (_BUCKET, *BUCKET, *BUCKET_REMOVALS),
        example="jetsync kv edit CONFIG --ttl 30d",
    ),
    Command(
        "info",
        "show configuration and state of a bucket",
        _info,
        (_BUCKET,),
        example="jetsync kv info CONFIG",
        aliases=("status",),
        other=("view",),
    ),
    Command(
        "get",
        "print the value of a key",
        _get,
        (_BUCKET, _KEY, _REVISION, argument("--raw", action="store_true", help="no line end")),
        example="jetsync kv get CONFIG colour",
    ),
    Command(
        "put",
        "write the value of a key",
        _put,
        (_BUCKET, _KEY, _VALUE),
        example="jetsync kv put CONFIG colour blue",
    ),
    Command(
        "create",
        "write the value of a key that does not exist yet",
        _create,
        (
            _BUCKET,
            _KEY,
            _VALUE,
            argument("--ttl", type=values.duration, metavar="TIME", help="life of the value"),
        ),
        example="jetsync kv create LOCKS job-17 worker-3 --ttl 1m",
    ),
    Command(
        "update",
        "write the value of a key if it still has a revision",
        _update,
        (
            _BUCKET,
            _KEY,
            argument("VALUE", help='the value; "-" reads standard input'),
            argument("REVISION", type=values.count, help="the revision it must have"),
        ),
        example="jetsync kv update CONFIG colour red 7",
    ),
    Command(
        "del",
        "delete a key, or a whole bucket",
        _del,
        (_BUCKET, argument("KEY", nargs="?", help="the key"), FORCE),
        example="jetsync kv del CONFIG colour --force",
        aliases=("rm",),
    ),
    Command(
        "purge",
        "delete a key with its history",
        _purge,
        (
            _BUCKET,
            _KEY,
            argument("--ttl", type=values.duration, metavar="TIME", help="life of the marker"),
            FORCE,
        ),
        example="jetsync kv purge CONFIG colour --force",
    ),
    Command(
        "history",
        "list the values that a key had",
        _history,
        (_BUCKET, _KEY),
        example="jetsync kv history CONFIG colour",
    ),
    Command(
        "revert",
        "write a value that a key had before once more",
        _revert,
        (
            _BUCKET,
            _KEY,
            argument("REVISION", type=values.count, help="the revision of that value"),
            FORCE,
        ),
        example="jetsync kv revert CONFIG colour 7 --force",
    ),
    Command(
        "watch",
        "print values as they are written",
        _watch,
        (
            _BUCKET,
            argument("KEY", nargs="?", default=">", help="key or filter (default: all)"),
            argument("--history", action="store_true", help="begin with all values kept"),
            argument(
                "--new",
                action="store_true",
                other=("--updates",),
                help="only what is written from now on",
            ),
            argument("--revision", type=values.count, metavar="N", help="begin with this revision"),
            argument("--no-deletes", action="store_true", help="leave out deletions"),
            argument("--deletes", action="store_true", help=argparse.SUPPRESS),  # the default
            argument("--count", type=values.count, metavar="N", help="end after so many"),
        ),
        example="jetsync kv watch CONFIG 'service.>'",
    ),
    Command(
        "compact",
        "remove delete markers",
        _compact,
        (
            _BUCKET,
            argument(
                "--older-than",
                type=values.duration,
                default=1800.0,
                metavar="TIME",
                help="keep younger markers (default: 30m)",
            ),
            FORCE,
        ),
        example="jetsync kv compact CONFIG --force",
    ),
)
