"""A clock and short calls for tests of ServerPool."""

from __future__ import annotations

import random
from typing import Any

from jetsync.protocol.serverpool import (
    Attempt,
    ServerPool,
)
from jetsync.protocol.url import ServerURL, parse_servers


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(servers: str = "a,b,c", clock: Clock | None = None, **options: Any) -> ServerPool:
    options.setdefault("randomize", False)
    options.setdefault("rng", random.Random(7))
    return ServerPool(parse_servers(servers), clock=clock or Clock(), **options)


def ask(pool: ServerPool) -> Attempt:
    attempt = pool.next()
    assert attempt is not None
    return attempt


def fail(pool: ServerPool, times: int) -> list[Attempt]:
    attempts = []
    for _ in range(times):
        attempt = ask(pool)
        attempts.append(attempt)
        pool.failed(attempt.server)
    return attempts


def connect(pool: ServerPool, clock: Clock, lived: float = 60.0) -> ServerURL:
    """One link that was good for ``lived`` seconds and is now lost."""
    server = ask(pool).server
    pool.succeeded(server)
    clock.now += lived
    return server


def hosts(attempts: list[Attempt]) -> list[str]:
    return [attempt.server.host for attempt in attempts]
