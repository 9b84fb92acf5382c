"""The resources of a server that have to be freed: its process and its scratch folder."""

from __future__ import annotations

import os

from jetsync._deadline import Deadline
from jetsync.server.interrupts import interrupts_afterwards
from jetsync.server.process import Process
from jetsync.server.scratch import Scratch

__all__ = ["Resources"]

_AT_EXIT = 5.0


class Resources:
    """A process and a folder, each maybe.

    Apart from ``NatsServer``, so that the garbage collector and the interpreter's exit can give
    them back when the owner did not.
    """

    def __init__(self) -> None:
        self.process: Process | None = None
        self.scratch: Scratch | None = None
        self._owner = os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether this is a forked child's copy: the real thing belongs to the parent."""
        return os.getpid() != self._owner

    def terminate(self, deadline: Deadline) -> None:
        """Ask the process to shut down; kill it when it has not within the deadline."""
        if self.process:
            self.process.terminate(deadline)
            self.process = None

    def kill(self) -> None:
        """End the process with SIGKILL."""
        if self.process:
            self.process.kill()
            self.process = None

    def release(self) -> None:
        """Stop the process if it runs and remove the folder. In a forked child: nothing."""
        if self.is_foreign:
            return
        try:
            self.terminate(Deadline(_AT_EXIT))
        finally:
            with interrupts_afterwards():
                self.kill()
                if self.scratch:
                    self.scratch.remove()
                    self.scratch = None
