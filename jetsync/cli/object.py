"""``jetsync object``: object stores and the files in them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetsync.cli import values
from jetsync.cli.config_flags import STORAGE, STORE, config_fields, is_given
from jetsync.cli.confirm import FORCE, UNASKED, confirm
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import HEADER, PROGRESS, argument
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields, Table
from jetsync.cli.progress import progress
from jetsync.cli.registry import Command

if TYPE_CHECKING:
    from jetsync.objectstore import ObjectMeta

__all__ = ["COMMANDS"]

_BUCKET = argument("BUCKET", completes="store", help="name of the object store")
_NAME = argument("NAME", help="name of the object")


def _store(invocation: Invocation) -> Any:
    return invocation.jetstream().object_store(invocation.args.bucket)


def _ls(invocation: Invocation) -> None:
    args, js = invocation.args, invocation.jetstream()
    if not args.bucket:
        found = sorted(js.object_stores(), key=lambda status: status.bucket)
        if args.names:
            invocation.out.names([status.bucket for status in found], "no object stores")
            return
        invocation.out.show(
            [_status(status) for status in found],
            Table(
                ("STORE", ">SIZE", "SEALED", "DESCRIPTION"),
                [
                    (one.bucket, values.format_size(one.size), one.sealed, one.description)
                    for one in found
                ],
                "no object stores",
            ),
        )
        return
    objects = sorted(_store(invocation).list(), key=lambda info: info.name)
    if args.names:
        invocation.out.names([info.name for info in objects], "no objects")
        return
    invocation.out.show(
        [_object(info) for info in objects],
        Table(
            ("NAME", ">SIZE", "MODIFIED", "DESCRIPTION"),
            [
                (
                    info.name,
                    "link" if info.link else values.format_size(info.size),
                    values.format_time(info.modified),
                    info.description,
                )
                for info in objects
            ],
            "no objects",
        ),
    )


def _add(invocation: Invocation) -> None:
    from jetsync.objectstore.config import ObjectStoreConfig

    args = invocation.args
    fields = config_fields(args, ObjectStoreConfig)
    store = invocation.jetstream().create_object_store(bucket=args.bucket, **fields)
    _show_status(invocation, store.status())


def _edit(invocation: Invocation) -> None:
    from jetsync.objectstore.config import ObjectStoreConfig

    args = invocation.args
    of_object: dict[str, Any] = {"headers": values.headers(args.header)} if args.header else {}
    if not (is_given(args) or of_object or args.rename is not None):
        raise UsageError("nothing to change: give a flag.")
    if args.name is not None:
        of_object.update(config_fields(args, ObjectStoreConfig))
        _edit_object(invocation, of_object)
        return
    if of_object or args.rename is not None:
        raise UsageError("--header and --rename change an object: give its NAME.")
    before = _store(invocation).status().config
    fields = config_fields(args, ObjectStoreConfig, before)
    store = invocation.jetstream().update_object_store(before, **fields)
    _show_status(invocation, store.status())


def _edit_object(invocation: Invocation, fields: dict[str, Any]) -> None:
    args = invocation.args
    if not fields.keys() <= {"description", "headers", "metadata"}:
        raise UsageError(
            "of an object --description, --metadata, --header and --rename can be changed: "
            "the other flags are those of a store."
        )
    _show_object(
        invocation, _store(invocation).update_meta(args.name, new_name=args.rename, **fields)
    )


def _info(invocation: Invocation) -> None:
    args = invocation.args
    if args.name is None:
        _show_status(invocation, _store(invocation).status())
    else:
        _show_object(invocation, _store(invocation).info(args.name))


def _put(invocation: Invocation) -> None:
    args = invocation.args
    if args.file == "-" and not args.name:
        raise UsageError("what comes from standard input needs a --name.")
    store = _store(invocation)
    if args.file == "-":
        info = store.put(_meta(args, args.name), sys.stdin.buffer)
    else:
        path = Path(args.file)
        if not path.is_file():
            raise UsageError(f"there is no file {args.file}.")
        size = path.stat().st_size
        with _told(invocation, f"put {path.name}", size) as told:
            info = store.put_file(path, _meta(args, args.name or path.name), on_progress=told)
    _show_object(invocation, info)


def _meta(args: argparse.Namespace, name: str) -> ObjectMeta:
    from jetsync.objectstore import ObjectMeta

    given = {} if args.chunk_size is None else {"chunk_size": args.chunk_size}
    headers = values.headers(args.header)
    return ObjectMeta(name=name, description=args.description, headers=headers, **given)


def _get(invocation: Invocation) -> None:
    args, store = invocation.args, _store(invocation)
    if args.output == "-":
        with store.get(args.name) as reader:
            while data := reader.read(1 << 20):
                invocation.out.write(data)
        return
    path = Path(args.output or Path(args.name).name)
    if path.exists() and not args.force:
        raise UsageError(f"{path} exists: give another --output, or --force.")
    with _told(invocation, f"get {args.name}", store.info(args.name).size) as told:
        info = store.get_file(args.name, path, on_progress=told)
    invocation.out.show(
        {**_object(info), "file": str(path)}, f"wrote {values.format_size(info.size)} to {path}"
    )


@contextmanager
def _told(invocation: Invocation, step: str, size: int) -> Iterator[Callable[[int], None] | None]:
    """Show how many of the bytes of a file have travelled."""
    with progress(invocation, step, is_bytes=True) as advance:
        yield None if advance is None else lambda done: advance(done, size)
        if advance is not None:
            advance(size, size)


def _del(invocation: Invocation) -> None:
    args = invocation.args
    if args.name is None:
        confirm(invocation, f"Delete object store {args.bucket} with all of its objects?")
        invocation.jetstream().delete_object_store(args.bucket)
        invocation.out.show({"deleted": args.bucket}, f"deleted object store {args.bucket}")
        return
    confirm(invocation, f"Delete object {args.name} of store {args.bucket}?")
    info = _store(invocation).delete(args.name)
    invocation.out.show(_object(info), f"deleted object {args.name}")


def _watch(invocation: Invocation) -> None:
    args, out = invocation.args, invocation.out
    with _store(invocation).watch(updates_only=args.new) as watcher:
        for number, info in enumerate((one for one in watcher if one is not None), 1):
            out.item(_object(info), lambda info=info: _line(info))  # type: ignore[misc]
            if number == args.count:
                return


def _line(info: Any) -> str:
    name = values.body_text(info.name.encode("utf-8", "replace"))
    what = "deleted" if info.deleted else values.format_size(info.size)
    return f"{values.format_time(info.modified)}  {name}  {what}"


def _seal(invocation: Invocation) -> None:
    confirm(invocation, f"Seal object store {invocation.args.bucket}? It can never change.")
    status = _store(invocation).seal()
    invocation.out.show(_status(status), f"sealed object store {status.bucket}")


def _link(invocation: Invocation) -> None:
    args, store = invocation.args, _store(invocation)
    bucket, slash, name = args.target.partition("/")
    if slash:
        other = invocation.jetstream().object_store(bucket)
        info = store.add_link(args.name, other.info(name))
    else:
        info = store.add_bucket_link(args.name, invocation.jetstream().object_store(bucket))
    _show_object(invocation, info)


def _object(info: Any) -> dict[str, object]:
    found: dict[str, object] = info.to_wire()
    return {**found, "mtime": info.modified}


def _show_object(invocation: Invocation, info: Any) -> None:
    link = info.link and f"{info.link.bucket}/{info.link.name or ''}".rstrip("/")
    invocation.out.show(
        _object(info),
        Fields(
            f"Object {info.name} of store {info.bucket}",
            {
                "": {
                    "Description": info.description,
                    "Link to": link or None,
                    "Size": values.format_size(info.size),
                    "Chunks": info.chunks,
                    "Modified": values.format_time(info.modified),
                    "Digest": info.digest or None,
                    "Headers": [
                        f"{name}: {', '.join(found)}"
                        for name, found in (info.headers or {}).items()
                    ],
                    "Metadata": [f"{key}={one}" for key, one in (info.metadata or {}).items()],
                }
            },
        ),
    )


def _status(status: Any) -> dict[str, object]:
    return {"config": status.config, "stream_info": status.stream_info}


def _show_status(invocation: Invocation, status: Any) -> None:
    info = status.stream_info
    invocation.out.show(
        _status(status),
        Fields(
            f"Object store {status.bucket}, created {values.format_time(info.created)}",
            {
                "": {
                    "Description": status.description,
                    "Size": values.format_size(status.size),
                    "Most": values.format_size(info.config.max_bytes),
                    "TTL": values.format_duration(info.config.max_age)
                    if info.config.max_age
                    else "none",
                    "Storage": status.storage,
                    "Replicas": status.replicas,
                    "Sealed": status.sealed,
                }
            },
        ),
    )


COMMANDS = (
    Command(
        "ls",
        "list object stores, or the objects of one",
        _ls,
        (
            argument("BUCKET", nargs="?", completes="store", help="list the objects of this one"),
            argument("-n", "--names", action="store_true", help="names only"),
        ),
        example="jetsync object ls FILES",
        aliases=("list",),
    ),
    Command(
        "add",
        "create an object store",
        _add,
        (
            argument("BUCKET", help="its name"),
            *STORE,
            STORAGE,
        ),
        example="jetsync object add FILES --max-bucket-size 10GiB",
    ),
    Command(
        "edit",
        "change an object store, or what describes an object of it",
        _edit,
        (
            _BUCKET,
            argument("NAME", nargs="?", help="name of the object"),
            HEADER,
            argument("--rename", metavar="NAME", help="another name for the object"),
            *STORE,
        ),
        example="jetsync object edit FILES --ttl 30d\n"
        "jetsync object edit FILES report.pdf --description 'the last one'",
        description="Change an object store, or the description, metadata, headers and name of an "
        "object. Headers and metadata are replaced as a whole.",
    ),
    Command(
        "info",
        "show an object store, or an object of it",
        _info,
        (_BUCKET, argument("NAME", nargs="?", help="name of the object")),
        example="jetsync object info FILES report.pdf",
        other=("show", "i"),
    ),
    Command(
        "put",
        "store a file",
        _put,
        (
            _BUCKET,
            argument("FILE", help='path of the file; "-" reads standard input'),
            argument("--name", metavar="NAME", help="name of the object (default: of the file)"),
            argument("--description", metavar="TEXT", help="what it is"),
            HEADER,
            argument("--chunk-size", type=values.size, metavar="SIZE", help="bytes of a message"),
            UNASKED,
            PROGRESS,
        ),
        example="jetsync object put FILES ./report.pdf",
    ),
    Command(
        "get",
        "write an object to a file",
        _get,
        (
            _BUCKET,
            _NAME,
            argument("-O", "--output", metavar="FILE", help='default: its name; "-": stdout'),
            argument("-f", "--force", action="store_true", help="replace the file"),
            PROGRESS,
        ),
        example="jetsync object get FILES report.pdf --output /tmp/report.pdf",
    ),
    Command(
        "del",
        "delete an object, or a whole store",
        _del,
        (_BUCKET, argument("NAME", nargs="?", help="name of the object"), FORCE),
        example="jetsync object del FILES report.pdf --force",
        aliases=("rm",),
    ),
    Command(
        "watch",
        "print changes of objects as they happen",
        _watch,
        (
            _BUCKET,
            argument("--new", action="store_true", help="only changes from now on"),
            argument("--count", type=values.count, metavar="N", help="end after so many"),
        ),
        example="jetsync object watch FILES",
    ),
    Command(
        "seal",
        "make an object store read-only for ever",
        _seal,
        (_BUCKET, FORCE),
        example="jetsync object seal FILES --force",
    ),
    Command(
        "link",
        "add a name for an object of another store, or for a whole store",
        _link,
        (_BUCKET, _NAME, argument("TARGET", help="STORE/OBJECT, or STORE")),
        example="jetsync object link FILES latest ARCHIVE/2026.zip",
    ),
)
