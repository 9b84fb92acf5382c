"""What jetsync promises, and the figures that it is held to."""

from __future__ import annotations

from typing import NamedTuple

PROMISES = {
    "P1": "Threads: every public object except iterators may be used from any thread; an iterator "
    "belongs to one thread at a time, and misuse raises.",
    "P2": "Time: every blocking call takes `timeout` in seconds on the monotonic clock and returns "
    "or raises within it and 250 ms, whatever the network does.",
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
    """One row of the table."""

    promised: str
    size: str


GOALS = {
    "G1": Goal("acked but missing in the stream: 0", "2,000,000 over 320 faults"),
    "G2": Goal("stored twice after deduplication: 0", "the same"),
    "G3": Goal("never delivered: 0; stalls over 2 heartbeats + 1 s: 0", "2,000,000 over 90 faults"),
    "G4": Goal("redelivered after `ack_sync` returned: 0", "200,000"),
    "G5": Goal("ordered: gaps, doubles, order errors: 0", "1,000 forced resets, four ways"),
    "G6": Goal("after a restart: p95 <= 0.5 s, max <= 1.5 s", "200 restarts, every way"),
    "G7": Goal("consumer leader steps down: gap <= 1.0 s", "300, heartbeat 0.4 s"),
    "G7b": Goal("leader killed: gap less the election <= 1.0 s", "20"),
    "G7c": Goal("half-open link left within 4.0 s (ping 1 s, 2 outstanding)", "20 x 8 links"),
    "G8": Goal("growth <= 8 MiB, no descriptor, no thread", "messages 1 M to 10 M"),
    "G8b": Goal("growth <= 1 MiB, no descriptor, no thread", "1,000 connections"),
    "G9": Goal("`close()` <= 1.0 s in every state", "60 rounds of 21 states"),
    "G10": Goal("calls over timeout + 0.25 s: 0", "50,000 random calls under chaos"),
    "G11": Goal("Ctrl-C to KeyboardInterrupt <= 100 ms; nothing lost", "1,400"),
    "G12": Goal("fork: child hangs, messages lost, stray bytes: 0", "500 forks; 100 in silence"),
    "G13": Goal("exit without close: own exit code, silent, <= 1.0 s", "600 programs"),
    "G14": Goal("parser: crashes under sanitizers: 0", "50 minutes of guided fuzzing"),
    "G14b": Goal("other events by other chunks: 0", "50,000 transcripts"),
    "G14c": Goal("C and Python parser differ: 0", "5,000,000 cases"),
    "G14d": Goal("parser covered: >= 98 % of lines, >= 95 % of branches", "the corpus"),
    "G15": Goal("strings that change framing: 0", "1,000,000"),
    "G16": Goal("slow consumer: memory <= limit + 32 MiB; counts exact", "2 GiB"),
    "G17": Goal("TLS in both directions at once: errors 0", "10 minutes"),
    "G18": Goal("32 threads on a connection: crossed replies 0", "2,000,000 requests"),
    "G19": Goal("100,000 subscriptions back <= 2.0 s", "20 restarts"),
    "G20": Goal("rolling restart: failed publishes 0, gap <= 1.5 s", "20 rounds of 3 nodes"),
    "G21": Goal("throughput with validation >= 95 % of that without", "-"),
    "G22": Goal(
        "wheel: RELRO, NOW, canary, FORTIFY, no RPATH, no executable stack", "every module"
    ),
    "G23": Goal("failures of the reliability tests in consecutive runs: 0", "100 runs"),
    "G24": Goal(
        "stored messages taken for a status, lost, or ending a reader: 0", "100,000 blocks"
    ),
    "G25": Goal("calls over timeout + 0.25 s with a full buffer: 0", "every public call"),
    "G27": Goal("objects unusable after an interrupt at a random moment: 0", "10,000"),
    "G28": Goal("link matrix: lost, twice, out of order: 0", "all ways, 0 to 300 ms"),
    "G30": Goal("messages of a thread stored out of order: 0", "every mixture of calls"),
    "G32": Goal("false alarms of damaged objects, followers lagging: 0", "4,000 reads, 3 nodes"),
    "G35": Goal("partitions between servers: as G1 to G7b", "-"),
    "G36": Goal("key-value: operations that no single register explains: 0", "100,000, 3 nodes"),
    "G37": Goal("objects lost and chunks left by renames: 0", "1,000 rounds each, 500 under cuts"),
    "G38": Goal("memory to iterate over the keys of a bucket <= 60 MiB", "1,000,000 keys"),
    "G39": Goal(
        "leaf nodes, gateways, accounts, upgrades, scaling, reloads: lost, doubled, late calls: 0",
        "20 cuts, 10 gateway cuts, 6 moves, 15 sign-ins, 2 upgrades, 65 reloads, 5 kills",
    ),
    "G40": Goal("checks equal to pandas on each line of PySpark: all", "5 on each of 4 versions"),
    "G41": Goal(
        "workers: jobs lost, dead letters that are none, keys out of order: 0",
        "4 x 100,000 jobs, 24 kills each of workers, servers, leaders",
    ),
}
