"""What travels between processes (to Spark workers, out of pools) survives pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import jetsync
from jetsync import errors
from jetsync.errors import api as _api_errors

ERRORS = sorted(
    {
        value
        for module in (errors, _api_errors)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, errors.Error)
    },
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_errors_keep_class_text_and_attributes(cls):
    error: Any = cls(500, "what happened") if cls is jetsync.ServiceError else cls("what happened")
    error.note = "kept"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_api_errors_keep_their_codes():
    error = jetsync.APIError("text", code=400, err_code=10071, description="wrong")
    again = copy.copy(pickle.loads(pickle.dumps(error)))
    assert (again.code, again.err_code, again.description) == (400, 10071, "wrong")


def test_options_reports_and_metadata_pickle():
    for value in (
        jetsync.ConnectOptions(servers="nats://h:1", user="u", password="p"),
        jetsync.PubAck("S", 1),
        jetsync.PublishReport(1, 0, [(3, jetsync.NotStoredError("no"))], 1, 1),
        jetsync.parse_ack_subject("$JS.ACK.S.C.1.2.3.4.5"),
        jetsync.Headers({"A": ["1", "2"]}),
    ):
        again = pickle.loads(pickle.dumps(value))
        assert repr(again) == repr(value)
