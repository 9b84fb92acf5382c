"""A consumer's leader that comes and goes: it loses pulls, messages and statuses, as servers do
while a stream moves."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.harness.fakeserver import ClientGone, Peer

TICK = 0.005
ACK_WAIT = 0.3
"""Seconds after which a message that was sent and lost is sent again."""


@dataclass
class Pull:
    """A pull that waits at the leader."""

    reply: bytes
    sid: bytes
    left: int
    left_bytes: int
    ends_at: float
    heartbeat: float
    no_wait: bool
    said_at: float = field(default_factory=time.monotonic)


class UnsteadyLeader:
    """The script of a fake server with one consumer that has ``count`` messages.

    For ``unsteady`` seconds from the first pull it fails in every way; from then on it is a good
    server.
    """

    def __init__(self, seed: int, count: int, unsteady: float) -> None:
        self._dice = random.Random(seed)
        self._waiting: list[Pull] = []
        self._due = [(0.0, number) for number in range(count)]
        self._sids: dict[bytes, bytes] = {}
        self._unsteady = unsteady
        self._leads_at = 0.0
        self._lock = threading.Lock()
        self.faults: dict[str, int] = {}
        self.healthy_at = 0.0

    def __call__(self, peer: Peer) -> None:
        peer.handshake()
        ended = threading.Event()
        leader = threading.Thread(target=self._lead, args=(peer, ended), daemon=True)
        leader.start()
        try:
            with contextlib.suppress(ClientGone):
                while True:
                    self._hear(peer, peer.read_line())
        finally:
            ended.set()
            leader.join()

    # -- what the client says ----------------------------------------------------------------------

    def _hear(self, peer: Peer, line: bytes) -> None:
        words = line.split(b" ")
        payload = peer.read_exactly(int(words[-1]) + 2)[:-2] if words[0] == b"PUB" else b""
        with self._lock:
            if words[0] == b"PING":
                peer.send(b"PONG\r\n")
            elif words[0] == b"SUB" and words[1].endswith(b".*"):
                self._sids[words[1][:-2]] = words[-1]
            elif words[0] == b"UNSUB":
                self._waiting = [pull for pull in self._waiting if pull.sid != words[1]]
            elif words[0] == b"PUB" and b".CONSUMER.MSG.NEXT." in words[1]:
                self._pulled(peer, words[2], json.loads(payload))

    def _pulled(self, peer: Peer, reply: bytes, body: dict[str, Any]) -> None:
        now = time.monotonic()
        if not self.healthy_at:
            self.healthy_at = now + self._unsteady
        sid = self._sids.get(reply.rpartition(b".")[0], b"")
        pull = Pull(
            reply,
            sid,
            body["batch"],
            body.get("max_bytes", 1 << 30),
            now + body.get("expires", 3600e9) / 1e9,
            body.get("idle_heartbeat", 0) / 1e9,
            body.get("no_wait", False),
        )
        if now < self._leads_at:
            if self._fails("no leader told", 0.5):
                self._say(peer, pull, "503")
        elif not self._fails("pull lost", 0.2):
            self._waiting.append(pull)

    # -- what the leader does ----------------------------------------------------------------------

    def _fails(self, what: str, chance: float) -> bool:
        if time.monotonic() >= self.healthy_at or self._dice.random() >= chance:
            return False
        self.faults[what] = self.faults.get(what, 0) + 1
        return True

    def _say(self, peer: Peer, pull: Pull, status: str) -> None:
        lines = [f"NATS/1.0 {status}"]
        if status.startswith("408"):
            lines += [f"Nats-Pending-Messages: {pull.left}", "Nats-Pending-Bytes: 0"]
        block = "\r\n".join([*lines, "", ""]).encode()
        size = len(block)
        peer.send(b"HMSG %s %s %d %d\r\n%s\r\n" % (pull.reply, pull.sid, size, size, block))

    def _lead(self, peer: Peer, ended: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(TICK):
                with self._lock:
                    self._tick(peer, time.monotonic())

    def _tick(self, peer: Peer, now: float) -> None:
        if now >= self._leads_at and self._fails("leader lost", 0.01):
            self._leads_at = now + self._dice.choice([0.0, 0.05, 0.4])
            is_told = self._dice.random() < 0.5
            for pull in self._waiting:
                if is_told:
                    self._say(peer, pull, "409 Leadership Change")
            self._waiting.clear()
        for _ in range(self._dice.randrange(4)):
            if self._due and self._due[0][0] <= now and self._waiting:
                self._serve(peer, now)
        for pull in list(self._waiting):
            if now >= pull.ends_at:
                self._waiting.remove(pull)
                if not self._fails("end lost", 0.3):
                    self._say(peer, pull, "408 Request Timeout")
            elif pull.heartbeat and now - pull.said_at >= pull.heartbeat:
                pull.said_at = now
                if not self._fails("heartbeat lost", 0.2):
                    self._say(peer, pull, "100 Idle Heartbeat")

    def _serve(self, peer: Peer, now: float) -> None:
        """Send the next message for the pull whose turn it is."""
        pull = self._waiting.pop(0)
        payload = b"%d" % self._due[0][1]
        size = len(payload) + 50
        if size > pull.left_bytes:
            self._say(peer, pull, "409 Message Size Exceeds MaxBytes")
            return
        _, number = self._due.pop(0)
        pull.left -= 1
        pull.left_bytes -= size
        pull.said_at = now
        if pull.left:
            self._waiting.append(pull)
        if self._fails("message lost", 0.1):
            self._due.append((now + ACK_WAIT, number))
            self._due.sort()
            return
        reply = b"$JS.ACK.S.c.1.%d.%d.1795229586547204964.0" % (number + 1, number + 1)
        peer.send_message(b"S.a", pull.sid, payload, reply)
