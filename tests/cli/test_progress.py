"""The progress display suits a terminal and a log file alike."""

from __future__ import annotations

import io

from jetsync.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_it_prints_plain_lines() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.begin("load", 2_000)
        for done in range(0, 2_001, 10):
            progress.advance(done)
        progress.finish()
    begun, ended = stream.getvalue().splitlines()
    assert begun == "load ..."
    assert ended.startswith("load: 2,000 of 2,000, ")
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_the_final_line_stays_and_fits_the_width() -> None:
    stream = Terminal()
    with Progress(stream) as progress:
        progress.begin("load", 100)
        progress.advance(100)
        progress.finish()
    *_, last = stream.getvalue().split("\r\x1b[K")
    assert last.startswith("load ")
    assert last.endswith("\n")
    assert f"[{'#' * 16}]" in last
    assert len(last.rstrip("\n")) < 80


def test_a_failed_step_leaves_the_cursor_on_a_line_of_its_own() -> None:
    stream = Terminal()
    try:
        with Progress(stream) as progress:
            progress.begin("load", 100)
            raise RuntimeError
    except RuntimeError:
        pass
    assert stream.getvalue().endswith("\n")


def test_a_step_of_unknown_size_shows_its_time_only() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin("start Spark", 0)
    progress.finish()
    assert stream.getvalue().splitlines()[1].startswith("start Spark: 0.")
