"""The status table: every move is judged, and the picture is the table."""

from __future__ import annotations

import pickle
from itertools import product

import pytest

from jetsync.errors import ConnectionClosedError, DrainingError, Error
from jetsync.protocol.states import INITIAL, TRANSITIONS, Status, diagram, transition

ALLOWED = {(old, new) for old, news in TRANSITIONS.items() for new in news}
DRAINING = (Status.DRAINING_SUBS, Status.DRAINING_PUBS)


def test_every_status_has_a_row() -> None:
    assert set(TRANSITIONS) == set(Status)


@pytest.mark.parametrize(("old", "new"), sorted(ALLOWED))
def test_an_allowed_move_gives_the_new_status(old: Status, new: Status) -> None:
    assert transition(old, new) is new


@pytest.mark.parametrize(("old", "new"), sorted(set(product(Status, Status)) - ALLOWED))
def test_any_other_move_raises_the_error_that_fits(old: Status, new: Status) -> None:
    expected: type[Error] = Error
    if old is Status.CLOSED:
        expected = ConnectionClosedError
    elif old in DRAINING:
        expected = DrainingError
    with pytest.raises(Error) as caught:
        transition(old, new)
    assert type(caught.value) is expected
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_closed_is_the_only_end_and_is_reached_from_everywhere() -> None:
    assert [status for status in Status if not TRANSITIONS[status]] == [Status.CLOSED]
    for status in set(Status) - {Status.CLOSED}:
        assert Status.CLOSED in TRANSITIONS[status]


def test_every_status_is_reachable_from_the_first() -> None:
    reached = {INITIAL}
    while more := {new for old in reached for new in TRANSITIONS[old]} - reached:
        reached |= more
    assert reached == set(Status)


def test_draining_never_leads_back() -> None:
    after = {new for old in DRAINING for new in TRANSITIONS[old]}
    assert after <= {Status.DRAINING_PUBS, Status.CLOSED}


def test_the_diagram_shows_every_move_and_no_other() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    assert lines[0] == "stateDiagram-v2"
    assert lines[1] == "[*] --> DISCONNECTED"
    assert lines[-1] == "CLOSED --> [*]"
    assert set(lines[2:-1]) == {f"{old} --> {new}" for old, new in ALLOWED}
    assert len(lines[2:-1]) == len(ALLOWED)


def test_a_status_is_its_name_and_survives_pickling() -> None:
    assert Status.CONNECTED == "CONNECTED"
    assert str(Status.CONNECTED) == f"{Status.CONNECTED}" == "CONNECTED"
    assert pickle.loads(pickle.dumps(Status.CLOSED)) is Status.CLOSED
