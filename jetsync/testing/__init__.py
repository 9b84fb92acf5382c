"""jetsync.testing - a real server in tests: fixtures, faults, assertions, messages without one.

Room:      L7. May import: worker, kv, objectstore, jetstream, client, protocol, server, _core,
           hallway.
Threads:   proxy, one per Faults.
Touch me:  to change fixtures, options of the pytest plugin, what counts as left behind.
Not here:  running nats-server (server/).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetsync.testing.assertions import assert_acked, assert_published
    from jetsync.testing.collecting import Collected, collect
    from jetsync.testing.faults import Faults
    from jetsync.testing.messages import make_message
    from jetsync.testing.waiting import wait_until

__all__ = [
    "Collected",
    "Faults",
    "assert_acked",
    "assert_published",
    "collect",
    "make_message",
    "wait_until",
]

# pytest loads the plugin at each start, also where no test needs a server: what this package offers
# is imported when it is used.
_HOMES = {
    "Collected": "collecting",
    "Faults": "faults",
    "assert_acked": "assertions",
    "assert_published": "assertions",
    "collect": "collecting",
    "make_message": "messages",
    "wait_until": "waiting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
