"""SequencedWindow: each thread's messages stay in the order of its calls, whichever it mixes."""

from jetsync._core.window import PublishWindow

class SequencedWindow(PublishWindow):
    """A window that is filled one message at a time. A message that a thread publishes by another
    call does not overtake those that it has in here. Thread-safe."""

    @property
    def crowded(self) -> bool: ...
    def would_be_overtaken(self, end: int) -> bool: ...
