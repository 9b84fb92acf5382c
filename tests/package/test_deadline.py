"""A time budget: every number that a user may give makes a clear wait or a clear refusal."""

from __future__ import annotations

import math
import threading
from datetime import timedelta

import pytest

from jetsync._deadline import Deadline, to_seconds
from jetsync.errors import ConfigError


@pytest.mark.parametrize("endless", [math.inf, 1e10, 1e300, 10**400])
def test_a_budget_without_end_can_be_given_to_every_wait_of_the_system(endless):
    deadline = Deadline(endless)
    left = deadline.remaining()
    assert left is not None
    assert left > 1e8
    assert not deadline.expired
    assert deadline.within(2.0) == 2.0
    done = threading.Event()
    done.set()
    assert done.wait(left)


def test_an_integer_that_no_float_can_hold_is_infinite():
    assert to_seconds(10**400) == math.inf
    with pytest.raises(ConfigError, match="negative"):
        to_seconds(-(10**400))


@pytest.mark.parametrize("bad", [-1, -0.001, math.nan, True, "1", None, timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused(bad):
    with pytest.raises(ConfigError):
        to_seconds(bad)


def test_no_limit_has_nothing_left_to_count():
    assert Deadline(None).remaining() is None
    assert Deadline(None).within(3.0) == 3.0
    assert not Deadline(None).expired
    assert Deadline(0).expired
