"""jetsync.jetstream.settle - settles a message when the work on it has ended.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, and acks,
           message, consumers, pull.
Threads:   none of its own; signs of progress go out on the connection's timer.
Touch me:  to change retries, dead letters, what a handler's exception means.
Not here:  threads and processes that do the work (worker/, spark/).
"""

from jetsync._core.message import delivery_of
from jetsync.jetstream.message import is_refused, is_terminated
from jetsync.jetstream.settle.backoff import NEVER, Backoff, Reject, Retry
from jetsync.jetstream.settle.dead_letter import DeadLetters
from jetsync.jetstream.settle.deliveries import lift_max_deliver
from jetsync.jetstream.settle.feed import Feed
from jetsync.jetstream.settle.rules import Settler, Verdict

__all__ = [
    "NEVER",
    "Backoff",
    "DeadLetters",
    "Feed",
    "Reject",
    "Retry",
    "Settler",
    "Verdict",
    "delivery_of",
    "is_refused",
    "is_terminated",
    "lift_max_deliver",
]
