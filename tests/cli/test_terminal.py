"""At a terminal rich draws tables, values and progress, and textual the screen of ``top``."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from textual.widgets import DataTable

from jetsync.cli.top import Sampler
from jetsync.cli.top_screen import TopScreen
from tests.cli.run_command import run
from tests.cli.terminal import drawn, terminal


def test_a_table_at_a_terminal_has_a_frame_and_a_pipe_gets_plain_text(stream, url) -> None:
    """Scripts read what they always read; people get lines and colours."""
    shown = drawn("stream", "ls", NATS_URL=url)
    assert shown.code == 0
    assert any("│" in line and stream.name in line for line in shown.text.splitlines())
    assert b"\x1b[1m" in shown.raw
    piped = run("stream", "ls", NATS_URL=url)
    assert stream.name in piped.out
    assert not {"│", "\x1b"} & set(piped.out)


def test_values_that_are_too_long_are_wrapped_below_each_other(stream, url, nc) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    nc.jetstream().update_stream(stream.cached_info.config, description=words)
    shown = drawn("stream", "info", stream.name, columns=60, NATS_URL=url).text
    lines = [line for line in shown.splitlines() if "word" in line]
    assert len(lines) > 3
    first = lines[0].index("word0")
    assert all(line[:first].strip() in ("", "Description") for line in lines)
    assert max(map(len, shown.splitlines())) <= 60, shown


def test_a_terminal_that_is_too_narrow_for_headings_gets_lines(stream, url) -> None:
    """No heading and no name is cut into its letters."""
    for columns in (30, 60, 75, 80, 100):
        shown = drawn("stream", "ls", columns=columns, NATS_URL=url).text
        assert "CONSUMERS" in shown, shown
        assert ("│" in shown) == (columns >= 75)


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_no_colours_where_they_are_not_wanted(stream, url, how: str) -> None:
    if how == "flag":
        shown = drawn("stream", "ls", "--no-color", NATS_URL=url)
    else:
        shown = drawn("stream", "ls", NATS_URL=url, NO_COLOR="1")
    assert stream.name in shown.text
    assert b"\x1b" not in shown.raw


def test_what_a_peer_wrote_is_no_markup_and_steers_nothing(stream, url, nc) -> None:
    nc.jetstream().update_stream(stream.cached_info.config, description="[red]x[/] :smile: \x1b[2J")
    shown = drawn("stream", "info", stream.name, NATS_URL=url)
    assert "[red]x[/] :smile: \\x1b[2J" in shown.text


def test_json_at_a_terminal_is_json(stream, url) -> None:
    shown = drawn("stream", "ls", "--names", "--json", NATS_URL=url)
    assert f'"{stream.name}"' in shown.text
    assert b"\x1b" not in shown.raw


def test_a_file_that_is_stored_shows_a_bar(url, jet, tmp_path: Path) -> None:
    assert jet("object", "add", "BARS", "--storage", "memory").code == 0
    try:
        (tmp_path / "file").write_bytes(b"x" * 3_000_000)
        shown = drawn("object", "put", "BARS", str(tmp_path / "file"), NATS_URL=url)
        assert shown.code == 0
        assert "put file" in shown.text
        assert "2.9 MiB of 2.9 MiB" in shown.text
        assert "━" in shown.text
        piped = jet("object", "put", "BARS", str(tmp_path / "file"))
        assert piped.err.splitlines()[0] == "put file ..."
    finally:
        jet("object", "del", "BARS", "--force")


def test_without_rich_a_terminal_gets_plain_text(stream, url, tmp_path: Path) -> None:
    """The extra is not needed for anything but its looks; what cannot be done names it."""
    for name in ("rich", "textual", "argcomplete"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    folder = str(tmp_path)
    shown = drawn("stream", "ls", NATS_URL=url, PYTHONPATH=folder)
    assert shown.code == 0
    assert stream.name in shown.text
    assert "│" not in shown.text
    with terminal("top", "--interval", "100ms", NATS_URL=url, PYTHONPATH=folder) as opened:
        opened.wait_for(lambda text: text.count("RATE/S") > 1 and 'jetsync[cli]"' in text)
    refused = drawn("completion", "bash", PYTHONPATH=folder)
    assert refused.code == 2
    assert 'pip install "jetsync[cli]"' in refused.text


# -- top -------------------------------------------------------------------------------------------


def test_top_shows_streams_and_consumers_live_and_ends_with_q(stream, url, nc) -> None:
    stream.create_consumer(durable_name="busy", name="busy")
    with terminal("top", "--interval", "100ms", NATS_URL=url) as opened:
        opened.wait_for(lambda text: stream.name in text and "busy" in text)
        for _ in range(123):
            nc.publish(f"{stream.name}.x", b"")
        opened.wait_for(lambda text: "123 to go" in text)
        opened.type(b"s")
        opened.wait_for(lambda text: "by messages" in text)
        opened.type(b"q")
        ended = opened.end()
    assert ended.code == 0
    assert ended.raw.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in ended.raw


@pytest.mark.parametrize(
    ("end", "code"), [(b"\x03", 130), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_top_gives_the_terminal_back_when_it_is_interrupted(stream, url, end, code: int) -> None:
    with terminal("top", "--interval", "100ms", NATS_URL=url) as opened:
        opened.wait_for(lambda text: stream.name in text)
        opened.type(end) if isinstance(end, bytes) else opened.send(end)
        ended = opened.end()
    assert ended.code == code
    assert b"\x1b[?1049l" in ended.raw, "the screen from before"
    assert "interrupted" in ended.text.splitlines()[-1]
    assert "Traceback" not in ended.text


def test_top_says_that_the_server_does_not_answer_and_goes_on(nc, stream) -> None:
    """A look that fails is told on the screen; the next one that works replaces it."""
    from jetsync.errors import TimeoutError

    class Flaky(Sampler):
        fails = True

        def look(self):
            if self.fails:
                raise TimeoutError("nothing came")
            return super().look()

    sampler = Flaky(nc.jetstream(), stream.name)

    async def shown() -> None:
        screen = TopScreen(sampler, [], 0.01)
        async with screen.run_test() as pilot:

            def about() -> str:
                return str(screen.query_one("#about").render())

            async def said(text: str) -> None:
                for _ in range(1000):
                    if text in about():
                        return
                    await pilot.pause(0.01)
                raise AssertionError(about())

            await said("no answer: nothing came")
            sampler.fails = False
            await said("1 stream")
            assert screen.query_one(DataTable).row_count == 1
            await pilot.press("space")
            await said("held")
            await pilot.press("q")

    asyncio.run(shown())


# -- completion ------------------------------------------------------------------------------------
