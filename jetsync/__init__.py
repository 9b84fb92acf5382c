"""jetsync - NATS JetStream for synchronous Python: blocking calls, C speed, Spark columns.

    import jetsync

    with jetsync.connect("nats://127.0.0.1:4222") as nc:
        js = nc.jetstream()
        js.create_or_update_stream(name="ORDERS", subjects=["orders.>"])
        js.publish("orders.new", b"one")
        worker = js.create_or_update_consumer("ORDERS", durable_name="worker")
        for msg in worker.fetch(10, timeout=1):
            print(msg.data)
            msg.ack()

All public names can be imported from here. ``jetsync.errors`` has the errors, ``jetsync.config``
the configurations and infos; ``jetsync.services``, ``jetsync.spark`` and ``jetsync.server`` are
packages of their own. The import needs no third-party package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from jetsync._core import message as _message
except ImportError as error:  # pragma: no cover - only in a process of its own
    if "interpreter" in str(error):
        raise ImportError(
            "jetsync belongs to the interpreter of the process that imported it first; another "
            "interpreter of the same process cannot import it"
        ) from None
    raise ImportError(
        "jetsync's compiled core is missing or was built for another Python; build it with "
        '"pip install ." in the source tree, or install a wheel'
    ) from error

# Looked at behind the import of the core: a free-threaded Python begins without the GIL, and turns
# it on for the first extension module that does not say that it can do without.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # A RuntimeError: code that catches an ImportError takes the extension modules for missing.
    raise RuntimeError(
        "jetsync needs the GIL, which guards fields of its objects: run without PYTHON_GIL=0 "
        "and -X gil=0; a free-threaded Python then turns the GIL on when jetsync is imported"
    )

from jetsync import errors
from jetsync._version import __version__
from jetsync.errors import *  # noqa: F403 - they are imported anyway, and listed there

if TYPE_CHECKING:
    from jetsync.client import (
        Connection,
        ConnectionStats,
        ConnectOptions,
        DoneAndNotDone,
        Event,
        Msg,
        ReconnectAttempt,
        RequestFuture,
        ServerState,
        Subscription,
        TLSConfig,
        as_completed,
        connect,
        shared_connection,
        wait,
    )
    from jetsync.client.message_trace import (
        MessageTrace,
        TraceHop,
    )
    from jetsync.headers import (
        Headers,
    )
    from jetsync.jetstream import (
        AUTO,
        AccountInfo,
        BackupInfo,
        ConsumeContext,
        Consumer,
        DirectBatch,
        DirectMsg,
        JetStream,
        JetStreamMsg,
        MessageStream,
        MsgBatch,
        MsgMetadata,
        OrderedConsumer,
        OrderedMessages,
        PubAck,
        PubAckFuture,
        PublishBatch,
        PublishReport,
        PullSubscription,
        PushSubscription,
        StoredMsg,
        Stream,
        parse_ack_subject,
    )
    from jetsync.jetstream.config.consumer import (
        AckPolicy,
        ConsumerConfig,
        DeliverPolicy,
        PriorityPolicy,
        ReplayPolicy,
    )
    from jetsync.jetstream.config.consumer_info import (
        ConsumerInfo,
        ConsumerLag,
        PriorityGroupState,
        SequenceInfo,
    )
    from jetsync.jetstream.config.stream import (
        DiscardPolicy,
        ExternalStream,
        PersistMode,
        Placement,
        RePublish,
        RetentionPolicy,
        StorageType,
        StoreCompression,
        StreamConfig,
        StreamConsumerLimits,
        StreamConsumerSource,
        StreamSource,
        SubjectTransform,
    )
    from jetsync.jetstream.config.stream_info import (
        APIErrorDetail,
        ClusterInfo,
        LostStreamData,
        PeerInfo,
        StreamAlternate,
        StreamInfo,
        StreamSourceInfo,
        StreamState,
    )
    from jetsync.kv import (
        Entry,
        KeyValue,
        KeyValueConfig,
        KeyValueOperation,
        KeyValueStatus,
        Watcher,
    )
    from jetsync.objectstore import (
        ObjectInfo,
        ObjectLink,
        ObjectMeta,
        ObjectReader,
        ObjectStore,
        ObjectStoreConfig,
        ObjectStoreStatus,
        ObjectWatcher,
        ObjectWriter,
        PrunedChunks,
    )
    from jetsync.protocol.info import (
        ServerInfo,
    )
    from jetsync.protocol.states import (
        Status,
    )

# Where each name is but the errors. A room is imported when the first of its names is used: most
# programs use few of them, and a command such as "jetsync --help" uses none.
_HOMES = {
    "jetsync.client": """
        Connection ConnectionStats ConnectOptions DoneAndNotDone Event Msg ReconnectAttempt
        RequestFuture ServerState Subscription TLSConfig as_completed connect shared_connection wait
    """,
    "jetsync.client.message_trace": "MessageTrace TraceHop",
    "jetsync.headers": "Headers",
    "jetsync.jetstream": """
        AUTO AccountInfo BackupInfo ConsumeContext Consumer DirectBatch DirectMsg JetStream
        JetStreamMsg MessageStream MsgBatch MsgMetadata OrderedConsumer OrderedMessages
        PubAck PubAckFuture PublishBatch PublishReport PullSubscription PushSubscription
        StoredMsg Stream parse_ack_subject
    """,
    "jetsync.jetstream.config.consumer": """
        AckPolicy ConsumerConfig DeliverPolicy PriorityPolicy ReplayPolicy
    """,
    "jetsync.jetstream.config.consumer_info": """
        ConsumerInfo ConsumerLag PriorityGroupState SequenceInfo
    """,
    "jetsync.jetstream.config.stream": """
        DiscardPolicy ExternalStream PersistMode Placement RePublish RetentionPolicy
        StorageType StoreCompression StreamConfig StreamConsumerLimits
        StreamConsumerSource StreamSource SubjectTransform
    """,
    "jetsync.jetstream.config.stream_info": """
        APIErrorDetail ClusterInfo LostStreamData PeerInfo StreamAlternate StreamInfo
        StreamSourceInfo StreamState
    """,
    "jetsync.protocol.info": "ServerInfo",
    "jetsync.protocol.states": "Status",
    "jetsync.kv": "Entry KeyValue KeyValueConfig KeyValueOperation KeyValueStatus Watcher",
    "jetsync.objectstore": """
        ObjectInfo ObjectLink ObjectMeta ObjectReader ObjectStore ObjectStoreConfig
        ObjectStoreStatus ObjectWatcher ObjectWriter PrunedChunks
    """,
}
_HOME = {name: room for room, names in _HOMES.items() for name in names.split()}

_MODULES = (
    *("config", "errors", "observe", "otel", "prometheus", "server", "services", "spark"),
    *("testing", "worker"),
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"jetsync.{name}")
    if name not in _HOME:
        # With name and obj Python adds the nearest name that there is.
        raise AttributeError(
            f"module 'jetsync' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


# The daily names first; a section each.
__all__ = [  # noqa: RUF022 - in the order of use
    "__version__",
    # Connections and core NATS.
    "connect",
    "shared_connection",
    "Connection",
    "ConnectOptions",
    "TLSConfig",
    "Subscription",
    "Msg",
    "Headers",
    "Event",
    "Status",
    "ServerInfo",
    "ConnectionStats",
    "ReconnectAttempt",
    "ServerState",
    "MessageTrace",
    "TraceHop",
    # Futures.
    "RequestFuture",
    "wait",
    "as_completed",
    "DoneAndNotDone",
    # JetStream: streams and consumers.
    "JetStream",
    "Stream",
    "BackupInfo",
    "Consumer",
    "OrderedConsumer",
    "PushSubscription",
    "PullSubscription",
    "MessageStream",
    "OrderedMessages",
    "ConsumeContext",
    # Messages.
    "MsgBatch",
    "JetStreamMsg",
    "MsgMetadata",
    "StoredMsg",
    "DirectBatch",
    "DirectMsg",
    "parse_ack_subject",
    # Publishing.
    "AUTO",
    "PubAck",
    "PubAckFuture",
    "PublishReport",
    "PublishBatch",
    # Key-value and object stores.
    "KeyValue",
    "Entry",
    "KeyValueOperation",
    "Watcher",
    "ObjectStore",
    "ObjectReader",
    "ObjectWriter",
    "ObjectWatcher",
    "PrunedChunks",
    # Configurations, states and infos: also in jetsync.config.
    "APIErrorDetail",
    "AccountInfo",
    "AckPolicy",
    "ClusterInfo",
    "ConsumerConfig",
    "ConsumerInfo",
    "ConsumerLag",
    "DeliverPolicy",
    "DiscardPolicy",
    "ExternalStream",
    "KeyValueConfig",
    "KeyValueStatus",
    "LostStreamData",
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectStoreConfig",
    "ObjectStoreStatus",
    "PeerInfo",
    "PersistMode",
    "Placement",
    "PriorityGroupState",
    "PriorityPolicy",
    "RePublish",
    "ReplayPolicy",
    "RetentionPolicy",
    "SequenceInfo",
    "StorageType",
    "StoreCompression",
    "StreamAlternate",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamInfo",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
]
__all__ += errors.__all__
