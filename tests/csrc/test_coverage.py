"""The corpus of the fuzz targets goes nearly everywhere in the C library (gcov)."""

from __future__ import annotations

import shutil

import pytest

from tests.csrc.coverage import PARSER_CORE, everything, share, table
from tests.csrc.suites import SUITES


@pytest.fixture(autouse=True)
def gcov():
    if not (shutil.which("gcov") and shutil.which("gcc")):
        pytest.skip("gcov comes with gcc; test_csrc runs the suites")


def test_the_corpus_covers_the_parser_and_the_tests_cover_everything(tmp_path, record_figure):
    by_corpus, by_all = everything(tmp_path, SUITES)
    lines, branches = share([by_corpus[name] for name in PARSER_CORE])
    record_figure("G14d parser core, lines", lines, "%", goal=">= 98")
    record_figure("G14d parser core, branches", branches, "%", goal=">= 95")
    assert lines >= 98, table(by_corpus)
    assert branches >= 95, table(by_corpus)
    lines, branches = share(list(by_all.values()))
    record_figure("all of csrc with its unit tests, lines", lines, "%", goal=">= 98")
    record_figure("all of csrc with its unit tests, branches", branches, "%", goal=">= 95")
    assert lines >= 98, table(by_all)
    assert branches >= 95, table(by_all)
