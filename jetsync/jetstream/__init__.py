"""jetsync.jetstream - streams, consumers, publishing and acknowledgements.

Room:      L4. May import: client, protocol, _core, hallway. May not: kv, objectstore, spark or cli.
Threads:   publish, published, delete (by the port); callbacks run on threads of client/.
Touch me:  to change what a stream, a consumer, a pull or an acknowledgement means.
Not here:  sockets and reconnecting (client/), the bytes of a frame (_core/, csrc/).
"""

from __future__ import annotations

from jetsync.jetstream.config.account import AccountInfo
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.context import JetStream
from jetsync.jetstream.message import JetStreamMsg, MsgBatch, MsgMetadata, parse_ack_subject
from jetsync.jetstream.ordered.consumer import OrderedConsumer
from jetsync.jetstream.ordered.messages import OrderedMessages
from jetsync.jetstream.publish.batch import PublishBatch
from jetsync.jetstream.publish.futures import PubAckFuture
from jetsync.jetstream.publish.headers import AUTO
from jetsync.jetstream.publish.puback import PubAck, PublishReport
from jetsync.jetstream.pull.messages import ConsumeContext, MessageStream
from jetsync.jetstream.push.subscription import PushSubscription
from jetsync.jetstream.streams.backup import BackupInfo
from jetsync.jetstream.streams.direct_batch import DirectBatch, DirectMsg
from jetsync.jetstream.streams.stream import StoredMsg, Stream
from jetsync.jetstream.subscribe.pull_subscription import PullSubscription

__all__ = [
    "AUTO",
    "AccountInfo",
    "BackupInfo",
    "ConsumeContext",
    "Consumer",
    "DirectBatch",
    "DirectMsg",
    "JetStream",
    "JetStreamMsg",
    "MessageStream",
    "MsgBatch",
    "MsgMetadata",
    "OrderedConsumer",
    "OrderedMessages",
    "PubAck",
    "PubAckFuture",
    "PublishBatch",
    "PublishReport",
    "PullSubscription",
    "PushSubscription",
    "StoredMsg",
    "Stream",
    "parse_ack_subject",
]
