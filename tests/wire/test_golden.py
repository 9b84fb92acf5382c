"""Frames captured from a real server mean the same in whatever pieces they arrive."""

from __future__ import annotations

import json

import pytest

from tests.wire import reference
from tests.wire.golden import FILE, samples
from tests.wire.outcome import by_core, by_library, by_reference, split

SAMPLES = samples()
SIDS = 220  # every subscription id of the captures exists
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)


def test_the_captures_are_whole():
    for entry in json.loads(FILE.read_text())["samples"]:
        assert bytes.fromhex(entry["hex"]) == next(
            s.data for s in SAMPLES if s.name == entry["name"]
        )
        assert len(entry["hex"]) == 2 * entry["len"]
    assert len(SAMPLES) > 100


@each_sample
def test_a_frame_is_read_the_same_at_every_split_point(sample):
    """Whole, byte by byte and cut in two at each position; by the library, the extension and the
    reference."""
    data = sample.data
    whole = by_core([data], SIDS)
    assert whole == by_reference([data], SIDS)
    assert not whole.bad
    assert not whole.unmatched
    found = sum(map(len, whole.messages.values())) + len(whole.events)
    assert found == (0 if data == b"+OK\r\n" else 1)
    for reader in (by_core, by_library, by_reference):
        assert reader(split(data, range(len(data))), SIDS) == whole
        for at in range(1, len(data)):
            assert reader([data[:at], data[at:]], SIDS) == whole


@each_sample
def test_a_frame_is_not_seen_before_its_last_byte(sample):
    for reader in (by_core, by_library, by_reference):
        early = reader([sample.data[:-1]], SIDS)
        assert not early.bad
        assert not early.events
        assert not early.messages


def test_all_frames_in_one_stream_come_out_in_order():
    data = b"".join(sample.data for sample in SAMPLES)
    whole = by_core([data], SIDS)
    assert whole == by_reference([data], SIDS)
    assert by_library([data], SIDS) == whole
    for step in (1, 7, 64, 1460, 4096):
        assert by_core(split(data, range(0, len(data), step)), SIDS) == whole
        assert by_library(split(data, range(0, len(data), step)), SIDS) == whole


@each_sample
def test_the_acknowledgement_subjects_of_the_captures_are_read(sample):
    for frame in reference.Parser().feed(sample.data):
        if sample.name.startswith("js_"):
            assert reference.parse_jsack(frame.reply)[4] >= 1
        elif frame.reply:
            with pytest.raises(reference.NotAnAck):
                reference.parse_jsack(frame.reply)
