"""What jetsync promises, and the figures that it is held to."""

from __future__ import annotations

from typing import NamedTuple

PROMISES = {
    "P1": "Threads: every public object except iterators may be used from any thread; an iterator "
    "belongs to one thread at a time, and misuse raises.",
    "P2": "Time: every blocking call takes `timeout` in seconds on the monotonic clock and returns "
    "or raises within it and 250 ms, whatever the network does. A `restore_stream` that fails "
    "takes up to 5 s more to delete what it made.",
    "P3": "Publish: a `PubAck` means stored, by the server's terms of durability; `NotStoredError` "
    "means certainly not; `PublishUnknownError` means maybe, and repeating with the same message "
    "id inside the duplicate window is safe.",
    "P4": "Pull consumers: at least once and no silent stall. If messages are pending, the server "
    "is reachable and a leader exists, delivery resumes within two heartbeats and a second; else a "
    "warning event comes within the same time.",
    "P5": "Ordered consumers and watches: each stream sequence exactly once, in order, across any "
    "number of resets, until closed.",
    "P6": "`ack()` is best effort, with a retry across a reconnect inside `ack_wait`. `ack_sync()` "
    "returned: the message is never redelivered by that consumer.",
    "P7": "`close()` takes at most 1 s and `drain(t)` at most t + 0.5 s, from any state and any "
    "thread, and leave nothing behind.",
    "P8": "Fork: a child never blocks and never writes to its parent's socket. Exit: silent, the "
    "exit code unchanged, within 1 s.",
    "P9": "Memory: bounded by the configured limits and 32 MiB.",
    "P10": "No byte supplied by a user or a publisher can break framing or memory.",
}


class Goal(NamedTuple):
    """One row of the table.

    ``parts`` are the parts of the long form whose tests hold the library to it: all of them passed
    where their records are. A row without parts is held by what ``size`` names.
    """

    promised: str
    size: str
    parts: tuple[str, ...] = ()


GOALS = {
    "G1": Goal(
        "acked but missing in the stream: 0", "2,000,000 over 320 faults; 40 kills", ("publish",)
    ),
    "G2": Goal("stored twice after deduplication: 0", "the same", ("publish",)),
    "G3": Goal(
        "never delivered: 0; stalls over 2 heartbeats + 1 s: 0",
        "2,000,000 over 90 faults",
        ("consume",),
    ),
    "G4": Goal("redelivered after `ack_sync` returned: 0", "200,000", ("publish",)),
    "G5": Goal(
        "ordered and watches: gaps, doubles, order errors: 0",
        "1,000 forced resets, each way",
        ("consume", "watches"),
    ),
    "G6": Goal(
        "after a restart: p95 <= 0.5 s, max <= 1.5 s",
        "200 restarts, every way",
        ("consume", "time"),
    ),
    "G7": Goal("consumer leader steps down: gap <= 1.0 s", "300, heartbeat 0.4 s", ("cluster",)),
    "G7b": Goal("leader killed: gap less the election <= 1.0 s", "20", ("cluster",)),
    "G7c": Goal(
        "half-open link left within 4.0 s (ping 1 s, 2 outstanding)", "20 x 8 links", ("cluster",)
    ),
    "G7d": Goal("half-open link found by default options within 60 s", "arithmetic", ("cluster",)),
    "G8": Goal(
        "growth <= 8 MiB, no descriptor, no thread",
        "messages 1 M to 10 M; every call 60 times",
        ("memory", "processes"),
    ),
    "G8b": Goal("growth <= 1 MiB, no descriptor, no thread", "1,000 connections", ("memory",)),
    "G9": Goal(
        "`close()` <= 1.0 s in every state and beside every call",
        "60 rounds of 21 states; every call 20 times",
        ("time",),
    ),
    "G10": Goal("calls over timeout + 0.25 s: 0", "50,000 random calls under chaos", ("time",)),
    "G11": Goal(
        "Ctrl-C to KeyboardInterrupt <= 100 ms; nothing lost",
        "1,400; every call 20 times",
        ("time", "processes"),
    ),
    "G12": Goal(
        "fork: child hangs, messages lost, stray bytes: 0",
        "500 forks; 100 in silence",
        ("processes",),
    ),
    "G13": Goal(
        "exit without close: own exit code, silent, <= 1.0 s", "600 programs", ("processes",)
    ),
    "G14": Goal(
        "parser: crashes under sanitizers and memcheck: 0",
        "25 minutes of guided fuzzing",
        ("fuzz", "bytes", "core", "sanitizers", "memcheck"),
    ),
    "G14b": Goal("other events by other chunks: 0", "50,000 transcripts", ("bytes",)),
    "G14c": Goal("C and Python parser differ: 0", "5,000,000 cases", ("bytes",)),
    "G14d": Goal("parser covered: >= 98 % of lines, >= 95 % of branches", "the corpus", ("core",)),
    "G15": Goal("strings that change framing: 0", "1,000,000", ("bytes",)),
    "G16": Goal("slow consumer: memory <= limit + 32 MiB; counts exact", "2 GiB", ("memory",)),
    "G17": Goal("TLS in both directions at once: errors 0", "10 minutes", ("tls",)),
    "G18": Goal(
        "32 threads on a connection: crossed replies 0",
        "2,000,000 requests; every way to publish, read and consume",
        ("memory", "answers"),
    ),
    "G19": Goal("100,000 subscriptions back <= 2.0 s", "20 restarts", ("time",)),
    "G20": Goal(
        "rolling restart: failed publishes 0, gap <= 1.5 s", "20 rounds of 3 nodes", ("cluster",)
    ),
    "G22": Goal(
        "wheel: RELRO, NOW, canary, FORTIFY, no RPATH, no executable stack",
        "every module, each commit (`tests/package/test_hardening.py`)",
    ),
    "G23": Goal(
        "failures of the reliability tests in consecutive runs: 0",
        "12 runs",
        ("repeats",),
    ),
    "G24": Goal(
        "stored messages taken for a status, lost, or ending a reader: 0",
        "100,000 blocks",
        ("links",),
    ),
    "G25": Goal(
        "calls over timeout + 0.25 s with a full buffer: 0", "every public call", ("time", "law")
    ),
    "G26": Goal(
        "longest wait of publishers <= 4 x the fair one; takers' share >= 0.5",
        "2, 4, 16 threads, 128 B to 1 MiB",
        ("law",),
    ),
    "G27": Goal(
        "objects unusable after an interrupt at a random moment: 0", "10,000", ("time", "rest")
    ),
    "G28": Goal(
        "link matrix: lost, twice, out of order: 0",
        "22 ways, each on 70 links: 0 to 300 ms, 200 kB/s to unlimited, 128 B to 5 MB",
        ("pull-matrix", "publish-matrix"),
    ),
    "G30": Goal(
        "messages of a thread stored out of order: 0", "every mixture of calls", ("order",)
    ),
    "G31": Goal("outages that look like an empty queue: 0", "every way of pulling", ("links",)),
    "G32": Goal(
        "false alarms of damaged objects, followers lagging: 0",
        "4,000 reads, 3 nodes",
        ("objects",),
    ),
    "G33": Goal(
        "subscriptions, threads, files left by dropped handles: 0", "10,000", ("links", "rest")
    ),
    "G34": Goal(
        "each call with exactly the permissions that its page lists: all",
        "each commit (`tests/jetstream/test_permissions_guide.py`)",
    ),
    "G35": Goal("partitions between servers: as G1 to G7b", "20 cuts", ("topologies",)),
    "G36": Goal(
        "key-value: operations that no single register explains: 0",
        "100,000, 3 nodes",
        ("linearizability",),
    ),
    "G37": Goal(
        "objects lost and chunks left by renames: 0",
        "1,000 rounds each, 500 under cuts",
        ("renames",),
    ),
    "G38": Goal(
        "memory to iterate over the keys of a bucket <= 60 MiB", "1,000,000 keys", ("keys",)
    ),
    "G39": Goal(
        "leaf nodes, gateways, accounts, upgrades, scaling, reloads: lost, doubled, late calls: 0",
        "20 cuts, 10 gateway cuts, 6 moves, 15 sign-ins, 2 upgrades, 65 reloads, 5 kills",
        ("topologies",),
    ),
    "G40": Goal(
        "checks equal to pandas on each line of PySpark: all",
        "5 on each of 4 versions",
        ("pysparks",),
    ),
    "G41": Goal(
        "workers: jobs lost, dead letters that are none, keys out of order: 0",
        "4 x 100,000 jobs, 24 kills each of workers, servers, leaders",
        ("workers",),
    ),
}
