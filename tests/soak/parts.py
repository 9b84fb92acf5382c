"""The parts of ``make soak``, each of at most ninety minutes on two processors."""

from __future__ import annotations

from pathlib import Path

from tests.harness import links

RELIABILITY = "tests/reliability"

PARTS: dict[str, list[str]] = {
    "publish": [
        f"{RELIABILITY}/test_publish_integrity.py",
        f"{RELIABILITY}/test_publish_cluster.py",
        f"{RELIABILITY}/test_ack_loss.py",
    ],
    "consume": [
        f"{RELIABILITY}/test_consume_restart.py",
        f"{RELIABILITY}/test_ordered_resets.py",
        f"{RELIABILITY}/test_push_recovery.py",
        f"{RELIABILITY}/test_push_queue.py",
        f"{RELIABILITY}/test_push_flow_control.py",
        "tests/conformance/test_ack_subjects_v2.py",
    ],
    "cluster": [
        f"{RELIABILITY}/test_consume_cluster.py",
        f"{RELIABILITY}/test_push_leaders.py",
        f"{RELIABILITY}/test_server_says.py",
        f"{RELIABILITY}/test_half_open.py",
        "tests/kv/test_cluster.py",
    ],
    "time": [
        f"{RELIABILITY}/test_deadlines.py",
        f"{RELIABILITY}/test_full_buffer.py",
        f"{RELIABILITY}/test_closing.py",
        f"{RELIABILITY}/test_interrupts.py",
        f"{RELIABILITY}/test_restart.py",
        f"{RELIABILITY}/test_many_subscriptions.py",
    ],
    "processes": [
        f"{RELIABILITY}/test_exit.py",
        f"{RELIABILITY}/test_forks.py",
        f"{RELIABILITY}/test_every_call.py",
    ],
    "memory": [
        f"{RELIABILITY}/test_memory.py",
        f"{RELIABILITY}/test_slow_consumer.py",
        f"{RELIABILITY}/test_shared_by_threads.py",
        f"{RELIABILITY}/test_callbacks.py",
        f"{RELIABILITY}/test_credentials.py",
        f"{RELIABILITY}/test_other_worlds.py",
    ],
    "links": [
        f"{RELIABILITY}/test_pull_links.py",
        f"{RELIABILITY}/test_hostile_blocks.py",
    ],
    **{
        f"over-{kind}": [
            f"{RELIABILITY}/test_other_links.py::test_the_suites_hold_over_other_links[{kind}]"
        ]
        for kind in links.KINDS
    },
    "law": [f"{RELIABILITY}/test_time_law.py", "tests/core/test_fairness.py"],
    "order": ["tests/jetstream/test_publish_order.py"],
    "answers": [f"{RELIABILITY}/test_own_answers.py"],
    "watches": ["tests/kv/test_watch.py"],
    "tls": ["tests/client/test_tls.py"],
    "repeats": [f"{RELIABILITY}/test_repeated.py"],
    "pull-matrix": [f"{RELIABILITY}/test_pull_matrix.py"],
    "publish-matrix": [f"{RELIABILITY}/test_publish_matrix.py"],
    "topologies": ["tests/topologies", f"{RELIABILITY}/test_full_disk.py"],
    "older": [f"{RELIABILITY}/test_older_servers.py"],
    "linearizability": ["tests/kv/test_linearizable.py"],
    "keys": ["tests/kv/test_container.py"],
    "renames": ["tests/objectstore/test_renames.py"],
    "objects": ["tests/objectstore/test_replaced.py"],
    "workers": ["tests/worker/test_kills.py"],
    "bytes": ["tests/wire", "tests/fuzz/test_hostile.py"],
    "core": [
        "tests/csrc/test_blake2.py",
        "tests/csrc/test_coverage.py",
        "tests/csrc/test_csrc.py",
        "tests/csrc/test_lock_order.py",
    ],
    "sanitizers": ["tests/csrc/test_sanitized.py"],
    "memcheck": ["tests/csrc/test_memcheck.py"],
    "races": ["tests/csrc/test_threads.py"],
    "fuzz": ["tests/fuzz/test_fuzz.py"],
    "spark": ["tests/cli/test_demo_run.py"],
    "pysparks": ["tests/spark/test_versions.py"],
}


_NAMED = {place.partition("::")[0] for places in PARTS.values() for place in places}

PARTS["rest"] = [
    place
    for path in sorted(Path(__file__).parents[1].glob("reliability/test_*.py"))
    if (place := f"{RELIABILITY}/{path.name}") not in _NAMED
]
"""Tests of reliability that no part names yet; one that takes long belongs into a part."""

PARTS["spark"] += [
    place
    for path in sorted(Path(__file__).parents[1].glob("spark/test_*.py"))
    if (place := f"tests/spark/{path.name}") not in PARTS["pysparks"]
]

OPTIONS: dict[str, list[str]] = {"spark": ["-n", "2"]}
"""Options of pytest for parts whose tests measure no time: most of these wait for a Java to start,
for the end of a batch or for a dead process, so two run beside each other."""
