"""The first words of the command line. A new one is a line here and a module with ``COMMANDS``."""

from __future__ import annotations

from jetsync.cli.registry import Word

__all__ = ["WORDS"]

WORDS = (
    Word("demo", "run a whole JetStream and Spark pipeline and check it", "jetsync.cli.demo"),
    Word("server", "run a nats-server with JetStream until Ctrl-C", "jetsync.cli.server"),
    Word("version", "show the versions of jetsync, Python and nats-server", "jetsync.cli.version"),
)
