"""One run of ``jetsync bench``: the clients, their time, and the figures."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TextIO

from jetsync._counted import counted
from jetsync._threads import start_thread
from jetsync.cli import values
from jetsync.cli.failure import CommandError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields

__all__ = ["PATIENCE", "Part", "measure"]

PATIENCE = 600.0
_CSV = ("#RunID", "ClientID", "MsgCount", "MsgBytes", "MsgsPerSec", "BytesPerSec", "DurationSecs")
"""Headings of the file that ``nats bench --csv`` writes."""


@dataclass
class Part:
    """The work of one client: a number of messages over a connection of its own."""

    nc: Any
    number: int
    messages: int
    data: bytes
    sleep: float | None = None
    done: int = 0
    begun: float = 0.0
    """When the time of this client begins: with its work, unless the work says otherwise."""
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the client took."""
        return self.ended - self.begun

    def turns(self) -> Iterable[int]:
        """Count the messages; between two of them there may be a pause."""
        return range(self.messages) if not self.sleep else self._slow_turns(self.sleep)

    def _slow_turns(self, sleep: float) -> Iterable[int]:
        for number in range(self.messages):
            yield number
            time.sleep(sleep)


def measure(
    invocation: Invocation, name: str, work: Callable[[Part], int], messages: int | None = None
) -> None:
    """Run ``work`` in every client at once, and print the total rate: all messages (None: as many
    as there are to be) by the time from the first client's beginning to the last one's end. Blocks.
    Raises CommandError when some did not come, OSError where the file of ``--csv`` cannot be
    written, before anything is sent."""
    path, wanted = invocation.args.csv, messages or invocation.args.msgs
    with nullcontext() if path is None else open(path, "w", encoding="utf-8", newline="") as file:
        parts = _run(invocation, work)
        total = sum(part.done for part in parts)
        if total != wanted:
            sent = counted(wanted, "message", form=",")
            raise CommandError(f"only {total:,} of {sent} came before it gave up.")
        busy = [part for part in parts if part.messages]
        seconds = max(part.ended for part in busy) - min(part.begun for part in busy)
        if file is not None:
            _write_csv(file, name, invocation.args.size, busy)
    _show(invocation, name, total, seconds)


def _run(invocation: Invocation, work: Callable[[Part], int]) -> list[Part]:
    """Run ``work`` in every client at once, on a thread and a connection of its own."""
    from jetsync.client import connect

    args = invocation.args
    share, rest = divmod(args.msgs, args.clients)
    sizes = [share + (number < rest) for number in range(args.clients)]
    data = b"x" * args.size
    connections = [connect(options=invocation.options()) for _ in sizes]
    failed: list[BaseException] = []

    def client(part: Part) -> None:
        try:
            part.begun = time.perf_counter()
            part.done = work(part)
            part.ended = time.perf_counter()
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failed.append(error)

    parts = [
        Part(nc, number, size, data, vars(args).get("sleep"))
        for number, (nc, size) in enumerate(zip(connections, sizes, strict=True))
    ]
    try:
        threads = [
            start_thread("bench", lambda part=part: client(part))  # type: ignore[misc]
            for part in parts
        ]
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        for nc in connections:
            nc.close()
    if failed:
        raise failed[0]
    return parts


def _show(invocation: Invocation, name: str, messages: int, seconds: float) -> None:
    args = invocation.args
    rate = messages / seconds
    data = {
        "bench": name,
        "messages": messages,
        "size": args.size,
        "clients": args.clients,
        "duration": round(seconds * 1e9),
        "msgs_per_second": round(rate, 1),
        "bytes_per_second": round(rate * args.size, 1),
    }
    invocation.out.show(
        data,
        Fields(
            f"bench {name}",
            {
                "": {
                    "Messages": f"{messages:,} of {values.format_size(args.size)}",
                    "Clients": args.clients,
                    "Time": values.format_duration(seconds),
                    "Rate": f"{rate:,.0f} messages/s",
                    "Bytes": f"{values.format_size(int(rate * args.size))}/s",
                    "Each": values.format_duration(seconds * args.clients / messages),
                }
            },
        ),
    )


def _write_csv(file: TextIO, name: str, size: int, parts: Iterable[Part]) -> None:
    """Write a line for each client: "P" of those that send, "S" of those that receive."""
    import csv

    run, kind = uuid.uuid4().hex, "P" if name in ("pub", "req", "js-pub", "kv", "kv-put") else "S"
    rows = csv.writer(file)
    rows.writerow(_CSV)
    for part in parts:
        rate = part.done / part.seconds
        figures = (round(rate), f"{rate * size:f}", f"{part.seconds:f}")
        rows.writerow((run, f"{kind}{part.number}", part.done, part.done * size, *figures))
