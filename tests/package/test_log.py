"""What peers send reaches a log on one line of it, and with its control characters escaped."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

import jetsync
from jetsync._log import Log, traceback_text
from tests.harness.waiting import wait_until

FORGED = "x\x1b[2J\r\n2030-01-01 ERROR forged\u2028\x00 line\n"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler of the standard library writes of the logger ``jetsync``."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("LINE %(levelname)s %(funcName)s %(message)s"))
    logger = logging.getLogger("jetsync")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def check(text: str) -> None:
    assert "forged" in text
    assert not set(text) & set("\x1b\r\x00\u2028")
    assert not [line for line in text.split("\n") if line.startswith("2030")]


def raises(msg: object) -> None:
    try:
        raise KeyError(FORGED)
    except KeyError as error:
        raise ValueError(FORGED) from error


def caught() -> ValueError:
    with pytest.raises(ValueError, match="forged") as found:
        raises(None)
    return found.value


def test_a_callback_that_raises_what_a_publisher_sent_forges_no_line(url, written) -> None:
    with jetsync.connect(url) as nc:
        nc.subscribe("forging", callback=raises)
        nc.publish("forging")
        wait_until(lambda: "Error: x" in written.getvalue())
    check(written.getvalue())
    assert "in raises" in written.getvalue()


def test_an_event_handler_that_raises_forges_no_line(url, written) -> None:
    with jetsync.connect(url, on_event=raises):
        wait_until(lambda: "Error: x" in written.getvalue())
    check(written.getvalue())


@pytest.mark.parametrize("way", ["exception", "log", "warning"])
def test_every_way_to_log_an_exception_escapes_its_text(written, way) -> None:
    log, error = Log("jetsync.test"), caught()
    if way == "exception":
        try:
            raise error
        except ValueError:
            log.exception("failed: %s", FORGED)
    elif way == "log":
        log.log(logging.ERROR, FORGED, error=error)
    else:
        log.warning("failed: %s", error, error=error)
    text = written.getvalue()
    check(text)
    assert text.startswith(("LINE ERROR test_every_way", "LINE WARNING test_every_way"))
    assert sum(line.startswith("LINE") for line in text.split("\n")) == 1


def test_fields_of_a_record_are_escaped_and_the_exception_is_there_for_programs(caplog) -> None:
    error = caught()
    with caplog.at_level(logging.ERROR, logger="jetsync"):
        Log("jetsync.test").log(
            logging.ERROR, "%d of %s", 7, FORGED, error=error, extra={"nats_subject": FORGED}
        )
    (record,) = caplog.records
    check(record.nats_subject)
    check(record.getMessage())
    assert record.exc_info[1] is error
    assert record.args[0] == 7
    assert record.pathname == __file__


def test_a_traceback_is_that_of_the_interpreter_with_its_texts_on_one_line() -> None:
    text = traceback_text(caught())
    check(text)
    lines = text.split("\n")
    assert lines.count("Traceback (most recent call last):") == 2
    assert [line.split(":")[0] for line in lines if "forged" in line] == ["KeyError", "ValueError"]
    assert "The above exception was the direct cause of the following exception:" in lines


if sys.version_info >= (3, 11):

    def test_notes_and_members_of_groups_are_on_one_line_each() -> None:
        error = caught()
        error.add_note(FORGED)
        group = ExceptionGroup(FORGED, [error, SyntaxError(FORGED)])  # noqa: F821
        text = traceback_text(group)
        check(text)
        assert sum("forged" in line for line in text.split("\n")) == 5


class Unspeakable(Exception):
    """Its text cannot be made, nor its notes."""

    def __str__(self) -> str:
        raise ValueError(FORGED)

    @property
    def __notes__(self) -> list[str]:
        raise ValueError(FORGED)


def test_an_exception_whose_text_cannot_be_made_is_logged_by_its_name(written) -> None:
    Log("jetsync.test").log(logging.ERROR, "failed: %s", Unspeakable(), error=Unspeakable())
    assert "Unspeakable" in written.getvalue()
