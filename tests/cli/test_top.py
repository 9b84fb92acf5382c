"""``jetsync top``: what it reckons, what it prints, and its screen at a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from textual.widgets import DataTable

import jetsync
from jetsync.cli.top_rates import Sampler, rows_in_order
from jetsync.cli.top_screen import Seen, TopScreen
from tests.cli.terminal import terminal
from tests.harness.waiting import wait_until

# -- what is reckoned ------------------------------------------------------------------------------


class Scripted:
    """A JetStream whose streams are told, and a clock that is set. A stream is
    ``name -> (last sequence, {consumer: (delivered, pending)})``."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        self.asked: list[str] = []
        self.fails = False

    def streams(self) -> Iterator[SimpleNamespace]:
        self.asked.append("streams")
        return (self.stream(name).cached_info for name in self.told)

    def stream(self, name: str) -> SimpleNamespace:
        self.asked.append(name)
        if self.fails:
            raise jetsync.TimeoutError("nothing came")
        last, consumers = self.told[name]
        state = SimpleNamespace(
            last_seq=last, messages=last, bytes=7, consumer_count=len(consumers)
        )
        info = SimpleNamespace(config=SimpleNamespace(name=name), state=state)
        return SimpleNamespace(cached_info=info)

    def consumers(self, name: str) -> Iterator[SimpleNamespace]:
        for consumer, (delivered, pending) in self.told[name][1].items():
            yield SimpleNamespace(
                name=consumer,
                delivered=SimpleNamespace(consumer_seq=delivered),
                num_pending=pending,
                num_ack_pending=3,
                num_waiting=2,
            )

    def sampler(self, only: str | None = None) -> Sampler:
        return Sampler(self, only, lambda: self.now)


def test_rates_are_per_second_since_the_look_before() -> None:
    js = Scripted()
    sampler = js.sampler()
    js.told = {"A": (100, {"c": (40, 60)})}
    assert [row.rate for row in sampler.look()[0]] == [0, 0], "there is none before"
    js.now, js.told = 4.0, {"A": (120, {"c": (48, 72)})}
    assert [row.rate for row in sampler.look()[0]] == [5, 2]
    js.now, js.told = 4.5, {"A": (121, {"c": (48, 73)})}
    (stream, consumer) = sampler.look()[0]
    assert (stream.rate, consumer.rate) == (2, 0)
    assert (stream.messages, stream.bytes) == (121, 7)
    assert (consumer.messages, consumer.ack_pending, consumer.waiting) == (73, 3, 2)


def test_what_is_new_or_begins_anew_has_no_rate_yet() -> None:
    js = Scripted()
    sampler = js.sampler()
    js.told = {"A": (100, {})}
    sampler.look()
    js.now, js.told = 1.0, {"A": (5, {}), "B": (70, {})}
    assert [rows[0].rate for rows in sampler.look()] == [0, 0]


def test_a_look_that_failed_does_not_spoil_the_next_rates() -> None:
    js = Scripted()
    sampler = js.sampler()
    js.told = {"A": (100, {})}
    sampler.look()
    js.now, js.fails = 1.0, True
    with pytest.raises(jetsync.TimeoutError):
        sampler.look()
    js.now, js.fails, js.told = 4.0, False, {"A": (120, {})}
    assert sampler.look()[0][0].rate == 5


def test_the_busiest_stream_is_first_by_its_own_rate_or_that_of_a_consumer() -> None:
    js = Scripted()
    sampler = js.sampler()
    js.told = {name: (0, {"c": (0, 0)}) for name in ("A", "B", "C", "D")}
    sampler.look()
    js.now = 1.0
    js.told = {
        "A": (5, {"c": (0, 0)}),
        "D": (2, {"c": (2, 0)}),
        "C": (2, {"c": (0, 0)}),
        "B": (1, {"c": (9, 0)}),
    }
    rows = rows_in_order(sampler.look())
    assert [(row.stream, row.consumer) for row in rows] == [
        (name, consumer) for name in "BACD" for consumer in (None, "c")
    ]


def test_consumers_stand_below_their_stream_the_one_with_the_most_to_do_first() -> None:
    js = Scripted()
    js.told = {"A": (9, {"done": (9, 0), "behind": (2, 7), "also": (9, 0)})}
    assert [row.consumer for row in js.sampler().look()[0]] == [None, "behind", "also", "done"]


def test_of_one_stream_nothing_else_is_asked() -> None:
    js = Scripted()
    js.told = {"A": (1, {}), "B": (2, {})}
    assert [rows[0].stream for rows in js.sampler("B").look()] == ["B"]
    assert js.asked == ["B"]


# -- what is printed -------------------------------------------------------------------------------


def test_pictures_are_documents_for_scripts(stream, nc, jet) -> None:
    nc.jetstream().publish(f"{stream.name}.x", b"1")
    done = jet("top", "--stream", stream.name, "--interval", "50ms", "--count", "2", "--json")
    assert [one["rows"][0]["messages"] for one in done.lines] == [1, 1]


def test_a_picture_has_so_many_rows_at_most(stream, jet) -> None:
    for number in range(3):
        stream.create_consumer(durable_name=f"c{number}", name=f"c{number}")
    for rows in (1, 3):
        done = jet("top", "--stream", stream.name, "--count", "1", "--rows", str(rows))
        heading, first, *others = done.out.splitlines()
        assert heading.split()[:2] == ["STREAM", "CONSUMER"]
        assert first.startswith(stream.name)
        assert len(others) == rows - 1


def test_a_stream_that_does_not_exist_is_told(jet) -> None:
    done = jet("top", "--stream", "NONE", "--count", "1")
    assert (done.code, done.out) == (3, "")


# -- its screen ------------------------------------------------------------------------------------


@pytest.fixture
def other(nc, stream):
    """A second stream, whose name stands before that of the first."""
    name = f"A{stream.name}"
    made = nc.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    nc.jetstream().delete_stream(name)


def place(lines: list[str], word: str) -> int:
    """Return the number of the line with a word, or -1."""
    return next((number for number, line in enumerate(lines) if word in line.split()), -1)


def test_top_shows_streams_and_consumers_live_and_ends_with_q(stream, url, nc) -> None:
    stream.create_consumer(durable_name="busy", name="busy")
    with terminal("top", "--interval", "100ms", NATS_URL=url) as opened:
        opened.wait_for(lambda text: stream.name in text and "busy" in text)
        for _ in range(123):
            nc.publish(f"{stream.name}.x", b"")
        opened.wait_for(lambda text: "123 to go" in text)
        opened.type(b"q")
        ended = opened.end()
    assert ended.code == 0
    assert ended.raw.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in ended.raw


def test_the_screen_shows_rates_per_second(stream, url, nc) -> None:
    """Messages that come between two looks, 1.5 s after each other at least."""
    with terminal("top", "--stream", stream.name, "--interval", "1500ms", NATS_URL=url) as opened:
        opened.wait_for_screen(lambda lines: place(lines, stream.name) >= 0)
        for _ in range(1000):
            nc.publish(f"{stream.name}.x", b"")
        lines = opened.wait_for_screen(
            lambda lines: "1,000" in lines[place(lines, stream.name)].split()[2:]
        )
        rate = int(lines[place(lines, stream.name)].split()[1].replace(",", ""))
    assert 0 < rate <= 1000 / 1.5


def test_the_screen_is_put_into_another_order(stream, other, url, nc) -> None:
    """By rate, by the number of messages, by name."""
    js = nc.jetstream()
    for _ in range(3):
        js.publish(f"{other.name}.x", b"")

    def is_above(first: str, second: str, lines: list[str]) -> bool:
        return -1 < place(lines, first) < place(lines, second)

    def is_busy(lines: list[str]) -> bool:
        js.publish(f"{stream.name}.x", b"")
        return is_above(stream.name, other.name, lines)

    with terminal("top", "--interval", "100ms", NATS_URL=url) as opened:
        opened.wait_for_screen(is_busy)
        stream.purge()
        opened.type(b"s")
        opened.wait_for(lambda text: "by messages" in text)
        opened.wait_for_screen(lambda lines: is_above(other.name, stream.name, lines))
        for _ in range(4):
            js.publish(f"{stream.name}.x", b"")
        opened.wait_for_screen(lambda lines: is_above(stream.name, other.name, lines))
        opened.type(b"s")
        opened.wait_for(lambda text: "by name" in text)
        opened.wait_for_screen(lambda lines: is_above(other.name, stream.name, lines))


def test_the_screen_shows_one_stream_if_asked_and_its_consumers_in_order(
    stream, other, url, nc
) -> None:
    for name in ("a-done", "b-behind"):
        stream.create_consumer(durable_name=name, name=name)
    for _ in range(5):
        nc.jetstream().publish(f"{stream.name}.x", b"")
    stream.consumer("a-done").fetch(5, timeout=10).ack()
    with terminal("top", "--stream", stream.name, "--interval", "100ms", NATS_URL=url) as opened:
        lines = opened.wait_for_screen(lambda lines: place(lines, "a-done") > 0)
    assert 0 < place(lines, "b-behind") < place(lines, "a-done")
    assert place(lines, other.name) == -1
    assert any(line.split()[:2] == ["1", "stream,"] for line in lines)


def test_the_space_bar_holds_the_picture(stream, url, nc) -> None:
    js, looks = nc.jetstream(), []

    def messages(lines: list[str], about: str) -> str:
        is_drawn = any(about in line for line in lines) and place(lines, stream.name) > 0
        return lines[place(lines, stream.name)].split()[2] if is_drawn else ""

    with (
        nc.subscribe(f"$JS.API.STREAM.INFO.{stream.name}", callback=looks.append),
        terminal("top", "--stream", stream.name, "--interval", "100ms", NATS_URL=url) as opened,
    ):
        opened.wait_for_screen(lambda lines: messages(lines, "by rate") == "0")
        opened.type(b" ")
        opened.wait_for_screen(lambda lines: messages(lines, "held") == "0")
        for _ in range(23):
            js.publish(f"{stream.name}.x", b"")
        begun = len(looks)
        wait_until(lambda: len(looks) > begun + 2, timeout=60)  # it has seen them
        opened.type(b"s")
        lines = opened.wait_for_screen(lambda lines: bool(messages(lines, "by messages, held")))
        assert messages(lines, "held") == "0"
        opened.type(b" ")
        opened.wait_for_screen(lambda lines: messages(lines, "by messages") == "23")


def test_the_screen_ends_when_the_connection_has_ended() -> None:
    js = Scripted()
    sampler = js.sampler()

    async def shown() -> None:
        screen = TopScreen(sampler, sampler.look(), 3600.0)
        error = jetsync.ConnectionClosedError("the connection is closed")
        async with screen.run_test() as pilot:
            screen.post_message(Seen(None, jetsync.TimeoutError("nothing came")))
            await pilot.pause()
            assert screen.is_running
            screen.post_message(Seen(None, error))
            await pilot.pause()
            assert not screen.is_running
        assert screen.error is error

    asyncio.run(shown())


def test_each_order_is_by_what_it_is_called() -> None:
    js = Scripted()
    sampler = js.sampler()
    js.told = {"A": (20, {}), "B": (10, {}), "C": (30, {})}
    sampler.look()
    js.now, js.told = 1.0, {"A": (21, {}), "B": (19, {}), "C": (33, {})}

    async def shown() -> None:
        screen = TopScreen(sampler, sampler.look(), 3600.0)
        async with screen.run_test() as pilot:
            for name, order in (("rate", "BCA"), ("messages", "CAB"), ("name", "ABC")):
                table = screen.query_one(DataTable)
                assert [str(table.get_row_at(at)[0]) for at in range(3)] == list(order)
                assert f"by {name}" in str(screen.query_one("#about").render())
                await pilot.press("s")

    asyncio.run(shown())


def test_a_picture_that_is_held_keeps_its_numbers_and_then_shows_the_last_ones() -> None:
    js = Scripted()
    js.told = {"A": (1, {})}
    sampler = js.sampler()

    async def shown() -> None:
        screen = TopScreen(sampler, sampler.look(), 3600.0)
        async with screen.run_test() as pilot:

            def messages() -> str:
                return str(screen.query_one(DataTable).get_row_at(0)[3])

            await pilot.press("space")
            js.told = {"A": (2, {})}
            screen.post_message(Seen(sampler.look()))
            await pilot.press("s")
            assert messages() == "1"
            await pilot.press("space")
            assert messages() == "2"

    asyncio.run(shown())


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


# -- a terminal that is gone, or that takes nothing ------------------------------------------------


def test_top_ends_by_itself_when_its_terminal_is_gone(stream, url) -> None:
    """Also where no SIGHUP tells it: what draws would wait for the terminal for ever."""
    with terminal("top", "--interval", "100ms", NATS_URL=url) as opened:
        opened.wait_for(lambda text: stream.name in text)
        opened.vanish()
        assert opened.code() == 128 + signal.SIGHUP


def test_a_signal_ends_top_at_a_terminal_that_takes_nothing(stream, url, nc) -> None:
    """It cannot be given back then."""
    looks: list[jetsync.Msg] = []

    def is_full() -> bool:
        before, begun = opened.unread(), len(looks)
        wait_until(lambda: len(looks) > begun + 5, timeout=60)
        return before == opened.unread()

    with (
        nc.subscribe(f"$JS.API.STREAM.INFO.{stream.name}", callback=looks.append),
        terminal("top", "--stream", stream.name, "--interval", "10ms", NATS_URL=url) as opened,
    ):
        opened.wait_for(lambda text: stream.name in text)
        wait_until(is_full, timeout=60)
        opened.send(signal.SIGTERM)
        assert opened.code() == 128 + signal.SIGTERM


@pytest.mark.parametrize("stream_elsewhere", ["stdin", "stderr"])
def test_without_keys_or_a_place_to_draw_pictures_are_printed(
    stream, url, stream_elsewhere: str
) -> None:
    flags = ("--stream", stream.name, "--interval", "50ms")
    with terminal("top", *flags, elsewhere=stream_elsewhere, NATS_URL=url) as opened:
        opened.wait_for(lambda text: text.count("RATE/S") > 1)
        opened.send(signal.SIGINT)
        ended = opened.end()
    assert ended.code == 130
    assert b"\x1b[?1049h" not in ended.raw
