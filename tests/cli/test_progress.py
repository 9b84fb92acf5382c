"""Progress elsewhere than on a terminal: plain lines. (On one: test_terminal.)"""

from __future__ import annotations

import io

from jetsync.cli.progress import Lines


def test_elsewhere_than_on_a_terminal_it_prints_plain_lines() -> None:
    stream = io.StringIO()
    with Lines(stream) as progress:
        progress.begin("load", 2_000)
        for done in range(0, 2_001, 10):
            progress.advance(done)
        progress.finish()
    begun, ended = stream.getvalue().splitlines()
    assert begun == "load ..."
    assert ended.startswith("load: 2,000 of 2,000, ")
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_step_of_unknown_size_shows_its_time_only() -> None:
    stream = io.StringIO()
    progress = Lines(stream)
    progress.begin("start Spark", 0)
    progress.finish()
    assert stream.getvalue().splitlines()[1].startswith("start Spark: 0.")


def test_bytes_are_shown_with_their_unit() -> None:
    stream = io.StringIO()
    progress = Lines(stream, is_bytes=True)
    for total in (3 * 2**20, 0):
        progress.begin("put", total)
        progress.advance(3 * 2**20)
        progress.finish()
    _, known, _, unknown = stream.getvalue().splitlines()
    assert known.startswith("put: 3.0 MiB of 3.0 MiB, ")
    assert known.endswith("iB/s")
    assert unknown.startswith("put: 3.0 MiB in ")
