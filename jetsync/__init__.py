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

Everything public can be imported from here; ``jetsync.spark`` and ``jetsync.server`` are rooms of
their own. The import needs no third-party package.
"""

from __future__ import annotations

try:
    from jetsync._core import message as _message
except ImportError as error:  # pragma: no cover - only without a build
    raise ImportError(
        "jetsync's compiled core is missing or was built for another Python; build it with "
        '"pip install ." in the source tree, or install a wheel'
    ) from error

from jetsync import _api_errors, errors
from jetsync._api_errors import *  # noqa: F403
from jetsync._version import __version__
from jetsync.client import (
    Connection,
    ConnectionStats,
    ConnectOptions,
    Event,
    Msg,
    Subscription,
    connect,
    shared_connection,
)
from jetsync.errors import *  # noqa: F403
from jetsync.headers import Headers
from jetsync.jetstream import (
    AUTO,
    AccountInfo,
    ConsumeContext,
    Consumer,
    JetStream,
    JetStreamMsg,
    MessageStream,
    MsgBatch,
    MsgMetadata,
    PubAck,
    PublishReport,
    StoredMsg,
    Stream,
    parse_ack_subject,
)
from jetsync.jetstream.consumer_config import *  # noqa: F403
from jetsync.jetstream.consumer_info import *  # noqa: F403
from jetsync.jetstream.stream_config import *  # noqa: F403
from jetsync.jetstream.stream_info import *  # noqa: F403
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.states import Status
