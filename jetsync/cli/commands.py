"""The first words of the command line. A new one is a line here and a module with ``COMMANDS``."""

from __future__ import annotations

from jetsync.cli.registry import Word

__all__ = ["WORDS"]

WORDS = (
    Word("pub", "publish messages", "jetsync.cli.pub", ("publish",)),
    Word("sub", "print messages, live or out of a stream", "jetsync.cli.sub", ("subscribe",)),
    Word("req", "send a request and print the replies", "jetsync.cli.request", ("request",)),
    Word("reply", "answer requests", "jetsync.cli.reply"),
    Word(
        "stream",
        "streams: list, create, change, read, repair",
        "jetsync.cli.stream",
        ("str",),
        ("st", "ms", "s"),
    ),
    Word(
        "consumer",
        "consumers: create, change, read, explain",
        "jetsync.cli.consumer",
        ("con",),
        ("obs", "c"),
    ),
    Word("kv", "key-value buckets", "jetsync.cli.kv"),
    Word("object", "object stores and their files", "jetsync.cli.object", ("obj",)),
    Word(
        "service",
        "services: list, ask what they are and do",
        "jetsync.cli.service",
        ("srv",),
        ("micro",),
    ),
    Word("copy", "copy a stream into a file, or a file into a stream", "jetsync.cli.copy"),
    Word("account", "limits and usage of the account", "jetsync.cli.account", (), ("a",)),
    Word("context", "named connection settings, shared with nats", "jetsync.cli.context", ("ctx",)),
    Word("doctor", "find what is wrong, and what to do about it", "jetsync.cli.doctor"),
    Word("top", "show what streams and consumers do, live", "jetsync.cli.top"),
    Word("trace", "show the way of a message through the servers", "jetsync.cli.trace"),
    Word("rtt", "measure the round trip to each server", "jetsync.cli.rtt"),
    Word("bench", "measure messages a second", "jetsync.cli.bench"),
    Word(
        "errors",
        "list the errors of JetStream by number",
        "jetsync.cli.errors",
        (),
        ("err", "error"),
    ),
    Word("completion", "complete commands and names in a shell", "jetsync.cli.completion"),
    Word(
        "demo",
        "run a whole JetStream and Spark pipeline and check it",
        "jetsync.cli.demo_command",
    ),
    Word(
        "server",
        "run a nats-server with JetStream, or report on servers",
        "jetsync.cli.server",
    ),
    Word("version", "show the versions of jetsync, Python and nats-server", "jetsync.cli.version"),
    Word(
        "worker", "call functions with messages, or bring dead letters back", "jetsync.cli.worker"
    ),
)
