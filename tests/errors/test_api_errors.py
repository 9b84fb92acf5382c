"""The class of an API error follows from its number, and the error survives pickling."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
from typing import Any

import pytest

import jetsync
from jetsync.config import StreamConfig
from jetsync.errors import (
    APIError,
    JetStreamError,
    WrongLastSequenceError,
)
from jetsync.errors import api as _api_errors
from jetsync.errors.api import ERR_CODES, api_error

# The numbers callers branch on, by the name of the class they have to become.
EXPECTED = {
    "StreamNotFoundError": [10059],
    "ConsumerNotFoundError": [10014],
    "MessageNotFoundError": [10037],
    "StreamNameInUseError": [10058],
    "ConsumerExistsError": [10148],
    "ConsumerDoesNotExistError": [10149],
    "ConsumerInUseError": [10013, 10105],
    "WrongLastSequenceError": [10071, 10164],
    "WrongLastMsgIdError": [10070],
    "ExpectedStreamMismatchError": [10060],
    "InvalidRequestError": [10003, 10025, 10193, 10227],
    "PedanticError": [10157],
    "ApiLevelRequiredError": [10185],
    "JetStreamNotEnabledError": [10039, 10076],
    "JetStreamUnavailableError": [
        *(10004, 10008, 10023, 10118, 10119, 10163, 10167, 10194, 10195, 10210, 10211),
    ],
    "LimitsExceededError": [10002, 10026, 10027, 10028, 10047, 10077, 10113, 10120, 10122],
    "MessageTooLargeError": [10054],
    "HeaderTooLargeError": [10097],
    "StreamSealedError": [10109],
    "InvalidStreamConfigError": [10052, 10056, 10065, 10074],
    "InvalidConsumerConfigError": [
        *(10012, 10084, 10086, 10087, 10088, 10089, 10094, 10098, 10099, 10100, 10101, 10108),
        *(10112, 10116, 10121, 10126, 10131, 10134, 10136, 10137, 10138, 10139, 10153),
    ],
    "PriorityGroupError": [10159, 10160, 10161, 10162, 10178, 10196, 10197],
    "TTLError": [10165, 10166],
    "CounterError": [10168, 10169, 10170, 10171, 10172],
    "ScheduleError": [10188, 10189, 10190, 10191, 10192, 10203, 10212, 10223],
    "BatchPublishError": [
        *(10174, 10175, 10176, 10177, 10179, 10199, 10200, 10201, 10205, 10206, 10207, 10208),
    ],
    "DuplicateInProcessError": [10158],
    "ConsumerResetError": [10204],
    "ClusterError": [10010, 10036, 10040, 10224, 10225, 10226],
}
CLASSES: list[Any] = [getattr(_api_errors, name) for name in _api_errors.__all__]


@pytest.mark.parametrize(
    ("number", "name"), [(number, name) for name, codes in EXPECTED.items() for number in codes]
)
def test_a_number_becomes_its_class_whatever_code_and_text_say(number, name):
    error = api_error({"code": 404, "err_code": number, "description": "stream not found"})
    assert type(error).__name__ == name
    assert (error.code, error.err_code, error.description) == (404, number, "stream not found")
    assert str(error).startswith(f"stream not found (err_code {number})")


def test_every_class_has_a_number_and_every_number_a_public_class():
    assert set(ERR_CODES.values()) == set(CLASSES)
    assert all(10000 < number < 10300 for number in ERR_CODES)


def test_no_number_has_two_classes():
    numbers = [number for kind in _api_errors._CODES for number in _api_errors._CODES[kind]]
    assert len(numbers) == len(set(numbers)) == len(ERR_CODES)


def test_an_unknown_number_is_a_plain_api_error():
    error = api_error({"code": 418, "err_code": 19999, "description": "short and stout"})
    assert type(error) is APIError
    assert (error.code, error.err_code) == (418, 19999)


@pytest.mark.parametrize(
    "odd",
    [{}, {"err_code": "10059"}, {"code": None, "err_code": None}, {"description": 5}, "no", []],
)
def test_an_odd_error_object_still_becomes_an_api_error(odd):
    error = api_error(odd)
    assert type(error) is APIError
    assert error.err_code == 0
    assert error.description


@pytest.mark.parametrize("kind", CLASSES)
def test_classes_are_documented_public_and_say_whether_to_retry(kind):
    assert issubclass(kind, APIError)
    assert issubclass(kind, JetStreamError)
    assert len(inspect.getdoc(kind) or "") > 40
    assert kind.__module__ == "jetsync"
    assert type(kind.retryable) is bool
    assert getattr(jetsync, kind.__name__) is kind


def test_only_what_can_pass_by_itself_is_retryable():
    retryable = {kind.__name__ for kind in CLASSES if kind.retryable}
    assert retryable == {"JetStreamUnavailableError", "DuplicateInProcessError"}


@pytest.mark.parametrize("number", sorted({kind: n for n, kind in ERR_CODES.items()}.values()))
def test_errors_survive_pickling(number):
    error = api_error({"code": 400, "err_code": number, "description": "wrong last sequence: 7"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


@pytest.mark.parametrize(
    ("description", "actual"),
    [("wrong last sequence: 5", 5), ("wrong last sequence: 0", 0), ("wrong last sequence", None)],
)
def test_the_actual_sequence_is_read_from_the_text(description, actual):
    error = api_error({"code": 400, "err_code": 10071, "description": description})
    assert isinstance(error, WrongLastSequenceError)
    assert error.actual_seq == actual
    assert WrongLastSequenceError("in my own words").actual_seq is None


@pytest.mark.parametrize(
    ("operation", "stream", "consumer"),
    [
        ("STREAM.INFO.ORDERS", "ORDERS", None),
        ("STREAM.MSG.GET.ORDERS", "ORDERS", None),
        ("STREAM.PEER.REMOVE.ORDERS", "ORDERS", None),
        ("CONSUMER.INFO.ORDERS.worker", "ORDERS", "worker"),
        ("CONSUMER.CREATE.ORDERS.worker.orders.new", "ORDERS", "worker"),
        ("CONSUMER.DURABLE.CREATE.ORDERS.worker", "ORDERS", "worker"),
        ("CONSUMER.LEADER.STEPDOWN.ORDERS.worker", "ORDERS", "worker"),
        ("CONSUMER.CREATE.ORDERS", "ORDERS", None),
        ("CONSUMER.NAMES.ORDERS", "ORDERS", None),
        ("STREAM.NAMES", None, None),
        ("INFO", None, None),
        ("", None, None),
    ],
)
def test_an_error_names_the_stream_and_the_consumer_that_were_asked_for(
    operation: str, stream: str | None, consumer: str | None
) -> None:
    error = api_error({"code": 404, "err_code": 10014, "description": "not found"}, operation)
    assert (error.stream, error.consumer) == (stream, consumer)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.stream, copy.consumer) == (str(error), stream, consumer)
    for name in (stream, consumer):
        assert name is None or repr(name) in str(error)


@pytest.mark.parametrize("number", sorted(_api_errors._REMEDIES))
def test_an_error_says_which_option_to_set_or_which_call_to_make(number: int) -> None:
    text = str(api_error({"code": 400, "err_code": number, "description": "is disabled"}))
    options = re.findall(r"set (\w+)=True", text)
    calls = re.findall(r"((?:create_or_)?update_\w+)", text)
    assert options or calls
    assert set(options) <= {field.name for field in dataclasses.fields(StreamConfig)}
    assert all(hasattr(jetsync.JetStream, call) for call in calls)
