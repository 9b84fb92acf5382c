"""The raw probe of a cluster whose server died: when does another one answer in its place?"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import jetsync

LONGEST = 60.0
BETWEEN = 0.02


def answered(nc: jetsync.Connection, request: str, dead: str) -> float:
    """Ask until a living server answers a request of the API as leader; return when it did."""
    give_up = time.monotonic() + LONGEST
    while time.monotonic() < give_up:
        with contextlib.suppress(jetsync.Error):
            answer = json.loads(nc.request(f"$JS.API.{request}", timeout=0.3).data)
            # The leader of all answers for what has no leader of its own, such as lists.
            leader = answer.get("cluster", {}).get("leader") if "config" in answer else "of all"
            if "error" not in answer and leader and leader != dead:
                return time.monotonic()
        time.sleep(BETWEEN)  # between two requests
    raise AssertionError(f"no server answered {request} within {LONGEST:g} s")


def times_without(urls: list[str], requests: Mapping[str, str], dead: str) -> dict[str, float]:
    """Seconds from now until each of the requests, by name, is answered. Blocks so long."""
    begun = time.monotonic()
    with jetsync.connect(urls) as nc, ThreadPoolExecutor(len(requests)) as threads:
        asked = {
            name: threads.submit(answered, nc, request, dead) for name, request in requests.items()
        }
        return {name: future.result() - begun for name, future in asked.items()}
