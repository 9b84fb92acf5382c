"""Ordinary tests once more, on a build with the address and undefined-behaviour sanitizers.

On every commit the core's unit tests, its threads, and messages and consumers of a real server; in
the long form also the reference, TLS, connecting, publishing, Arrow columns, and the tests of
reliability that drive the core hardest. Each has its short form here: a sanitizer shows a mistake
the first time that it is made. ``make sanitize`` runs all that needs no Spark.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.csrc.sanitized import FIRE, Copy
from tests.harness.figures import short_form
from tests.harness.soak import scaled

THREADS = ("test_stress.py", "test_bulk_link.py")
# Two processes, so that two processors are busy; each with about as much to do.
SHORT = (
    ("tests/core", *(f"--ignore=tests/core/{name}" for name in ("test_gil.py", *THREADS))),
    (
        "tests/wire/test_vectors.py",
        *(f"tests/core/{name}" for name in THREADS),
        "tests/client/test_messages.py",
        "tests/jetstream/test_consume.py",
    ),
)
LONG = (
    (
        "tests/core",
        "tests/wire/test_golden.py",
        "tests/wire/test_tables.py",
        "tests/wire/test_vectors.py",
        "tests/wire/test_differential.py",
    ),
    (
        "tests/client/test_connect.py",
        "tests/client/test_messages.py",
        "tests/client/test_lifecycle.py",
        "tests/client/test_tls.py",
        "tests/jetstream/test_publish.py",
        "tests/jetstream/test_consume.py",
    ),
    FIRE,
)
HALVES = scaled(SHORT, LONG)


@pytest.mark.slow
@pytest.mark.timeout(scaled(600, 3600))
@pytest.mark.skipif(
    sys.platform != "linux", reason="preloads as Linux does; the C suites run sanitized"
)
def test_ordinary_tests_are_clean_under_the_sanitizers(tmp_path):
    copy = Copy(tmp_path)
    logs = [tmp_path / f"half-{number}.log" for number in range(len(HALVES))]
    running = []
    for half, log in zip(HALVES, logs, strict=True):
        with log.open("wb") as file:
            running.append(
                subprocess.Popen(
                    copy.pytest_command("-x", "-m", "not timed", *half),
                    cwd=copy.folder,
                    env=short_form(**copy.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )
    try:
        codes = [process.wait(timeout=scaled(400, 3400)) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    for code, log in zip(codes, logs, strict=True):
        said = log.read_text(errors="replace")
        assert code == 0, f"exit {code}\n{said[-8000:]}"
        assert " passed" in said
        assert "Sanitizer" not in said
