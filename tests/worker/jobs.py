"""Handlers for workers in processes of their own: importable, told what to do by the message."""

from __future__ import annotations

import os
import time

from jetsync import JetStreamMsg
from jetsync.worker import task

__all__ = ["handle", "marked"]


def handle(msg: JetStreamMsg) -> None:
    """``die`` ends the process as a crash does, a number is how many seconds the work takes."""
    if msg.data == b"die":
        os._exit(1)
    with open(os.environ["JOBS_LOG"], "a") as log:
        log.write(f"{msg.metadata.stream_seq}\n")
    time.sleep(float(msg.data))  # the work


marked = task(stream="MARKED", consumer="w", threads=2)(lambda msg: handle(msg))
