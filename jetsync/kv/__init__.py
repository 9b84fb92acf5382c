"""jetsync.kv - key-value buckets: the last value of each key, its history, and watching it change.

Room:      L5. May import: jetstream, hallway. May not: client, protocol, _core, spark or cli.
Threads:   none of its own.
Touch me:  to change what a bucket, a key, an entry or a watcher means (ADR-8, ADR-48, ADR-57).
Not here:  streams, publishing and ordered consumers, which it uses (jetstream/).
"""

from __future__ import annotations

from jetsync.kv.config import KeyValueConfig
from jetsync.kv.entry import Entry, KeyValueOperation
from jetsync.kv.status import KeyValueStatus
from jetsync.kv.store import KeyValue
from jetsync.kv.watcher import Watcher

__all__ = [
    "Entry",
    "KeyValue",
    "KeyValueConfig",
    "KeyValueOperation",
    "KeyValueStatus",
    "Watcher",
]
