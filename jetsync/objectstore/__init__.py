"""jetsync.objectstore - objects of any size: stored in chunks, read as files, checked by digest.

Room:      L5. May import: jetstream, hallway. May not: client, protocol, _core, kv, spark or cli.
Threads:   none of its own.
Touch me:  to change what a bucket, an object, its chunks or its links mean (ADR-20).
Not here:  streams, publishing and ordered consumers, which it is made of (jetstream/).
"""

from __future__ import annotations

from jetsync.objectstore.config import ObjectStoreConfig
from jetsync.objectstore.info import ObjectInfo, ObjectLink, ObjectMeta
from jetsync.objectstore.listing import PrunedChunks
from jetsync.objectstore.reader import ObjectReader
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.store import ObjectStore
from jetsync.objectstore.watcher import ObjectWatcher
from jetsync.objectstore.writer import ObjectWriter

__all__ = [
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreConfig",
    "ObjectStoreStatus",
    "ObjectWatcher",
    "ObjectWriter",
    "PrunedChunks",
]
