"""The table of error numbers is what the pinned list of the server makes of it."""

from __future__ import annotations

from jetsync.errors import api as _api_errors
from jetsync.errors.api import ERR_CODES
from tests.errors.generate_api_errors import TARGET, generated, read_list

LIST = read_list()


def test_the_committed_table_is_the_generated_one():
    text = TARGET.read_text()
    assert generated(text) == text


def test_each_number_and_name_is_there_once():
    assert len({error.err_code for error in LIST}) == len(LIST) > 220
    assert len({error.name for error in LIST}) == len(LIST)
    assert [error.err_code for error in LIST] == sorted(error.err_code for error in LIST)


def test_each_class_in_the_list_exists_and_no_number_is_only_ours():
    named = {error.err_code: error.kind for error in LIST if error.kind != "-"}
    assert named == {number: kind.__name__ for number, kind in ERR_CODES.items()}
    assert set(named.values()) == set(_api_errors.__all__)
