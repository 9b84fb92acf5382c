"""Key-value buckets as tables: the names of streams and subjects, look-ups of many keys at once.

A bucket is a stream ``KV_<bucket>`` with a subject ``$KV.<bucket>.<key>`` for each key; a deletion
is a message with a header.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jetsync.kv.backing import prefix_of
from jetsync.kv.entry import OPERATION, REASON, KeyValueOperation, named_operation, operation_of
from jetsync.spark.connection import link_of, with_patience
from jetsync.spark.errors import SparkOptionError, SparkSourceError

if TYPE_CHECKING:
    from jetsync import JetStream

__all__ = [
    "ANY_PREFIX",
    "DELETIONS",
    "KEY_COLUMNS",
    "KEY_PATTERN",
    "check_bucket",
    "kv_lookup",
    "no_such_stream",
    "operations",
    "stream_of",
    "subject_prefix",
]

KEY_COLUMNS = ("key", "value", "operation", "revision", "timestamp")
"""The columns that a read of a bucket gives by default."""

KEY_PATTERN = r"^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$"
"""The pattern of a valid key, for ``re`` and for Arrow."""

ANY_PREFIX = r"^\$KV\.[^.]+\."
"""The pattern of what comes before a key: a bucket that is a mirror has the subjects of its origin.
For Arrow."""

DELETIONS = ("DEL", "PURGE")

# A server answers with the last messages of at most 1,024 subjects at a time.
_AT_ONCE = 1_000


def check_bucket(bucket: str) -> str:
    """Return a name of a bucket; ``JETSYNC_INVALID_OPTION`` if it cannot be one."""
    if not re.fullmatch(r"[-_a-zA-Z0-9]+", bucket):
        raise SparkOptionError(
            f"option 'bucket': {bucket!r} is not a bucket's name (letters, digits, - and _)",
            code="JETSYNC_INVALID_OPTION",
        )
    return bucket


def stream_of(bucket: str) -> str:
    """Return the stream of a bucket."""
    return f"KV_{bucket}"


def no_such_stream(name: str, option: str) -> SparkSourceError:
    """Return the error of a stream that is not there, or of the bucket that it would be."""
    what = f"stream {name!r}"
    if name.startswith("KV_"):
        what, option = f"bucket {name.removeprefix('KV_')!r} (stream {name})", "bucket"
    return SparkSourceError(
        f"there is no {what}; create it first, or correct option '{option}'",
        code="JETSYNC_STREAM_NOT_FOUND",
    )


def subject_prefix(bucket: str) -> str:
    """Return what comes before a key in its subject."""
    return f"$KV.{bucket}."


def kv_lookup(
    bucket: str, keys: Iterable[str | None], options: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Return the values of many keys; what is missing or deleted is not in the answer.

    One request for a thousand keys, instead of one for each: for look-ups in ``mapInArrow``. Keys
    may come several times, and None is passed over. Takes the connection options of the
    ``jetstream`` format; uses this process's shared connection. Any replica may answer, so a value
    that was put a moment ago may be missing. Blocks. Raises ``SparkOptionError`` for a text that
    is no key, ``SparkSourceError``. Needs nats-server 2.11. Thread-safe.
    """
    stream = stream_of(check_bucket(bucket))
    wanted = iter(dict.fromkeys(key for key in keys if key is not None))
    link = link_of(options)
    found: dict[str, bytes] = {}
    while part := list(itertools.islice(wanted, _AT_ONCE)):
        strange = [key for key in part if not re.fullmatch(KEY_PATTERN, key)]
        if strange:
            raise SparkOptionError(
                f"{strange[0]!r} is not a key of a bucket", code="JETSYNC_INVALID_OPTION"
            )

        def ask(js: JetStream, part: list[str] = part) -> dict[str, bytes]:
            found = js.stream(stream)
            prefix = prefix_of(found.cached_info.config)
            batch = found.get_last_msgs([prefix + key for key in part])
            if batch.error is not None:
                raise batch.error
            return {
                message.subject[len(prefix) :]: message.data
                for message in batch
                if operation_of(message.raw_headers) is KeyValueOperation.PUT
            }

        found.update(with_patience(link, f"looking up keys of bucket {bucket}", ask))
    return found


def operations(headers: Any) -> list[str]:
    """Return ``PUT``, ``DEL`` or ``PURGE`` for each row of a headers column.

    Only headers that tell of a deletion become Python objects.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = ["PUT"] * len(headers)
    names = headers.keys.cast(pa.string())
    telling = pc.indices_nonzero(pc.is_in(names, pa.array([OPERATION, REASON])))
    if not len(telling):
        return found
    ends = headers.offsets.to_pylist()[1:]
    row = 0
    for entry in telling.to_pylist():
        while ends[row] <= entry:
            row += 1
        pairs = headers[row].as_py() or ()
        given = {
            name: values[0] if isinstance(values[0], str) else values[0].decode("utf-8", "replace")
            for name, values in pairs
        }
        found[row] = named_operation(given.get(OPERATION), given.get(REASON)).value
    return found
