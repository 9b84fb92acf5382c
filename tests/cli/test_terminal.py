"""At a terminal rich draws tables, values and progress."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_no_value_is_cut_off_beside_its_name(stream, url) -> None:
    for columns in (20, 30, 40):
        shown = drawn("stream", "info", stream.name, columns=columns, NATS_URL=url).text
        assert "memory" in shown
        assert stream.name in shown


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
