"""Handlers for workers in processes of their own: importable, told what to do by the message."""

from __future__ import annotations

import os
import time

from jetsync import JetStreamMsg
from jetsync.worker import task

__all__ = ["handle", "marked", "set_up", "tear_down"]


def handle(msg: JetStreamMsg) -> None:
    """``die`` ends the process as a crash does, a number is how many seconds the work takes."""
    if msg.data == b"die":
        os._exit(1)
    _note(msg.metadata.stream_seq)
    time.sleep(float(msg.data))  # the work


def _note(what: object) -> None:
    with open(os.environ["JOBS_LOG"], "a") as log:
        log.write(f"{what}\n")


def set_up() -> None:
    """Note that a process begins."""
    _note("setup")


def tear_down() -> None:
    """Note that a process ends."""
    _note("teardown")


marked = task(stream="MARKED", consumer="w", threads=2)(lambda msg: handle(msg))
