"""Documentation that is made from the code says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetsync.protocol.states import diagram

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def test_the_picture_of_the_states_is_the_table():
    text = (ROOT / "docs/internals/threads.md").read_text()
    shown = re.search(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    assert shown[1] == diagram()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
