"""Documentation that is made from the code says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetsync.protocol.states import diagram

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/*.md"),
    ]
)


def test_the_picture_of_the_states_is_the_table():
    text = (ROOT / "docs/internals/threads.md").read_text()
    shown = re.search(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    assert shown[1] == diagram()


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings of a page, made as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    plain = [
        re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.+)$", text, re.M)
    ]
    return {title.strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)", page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{target}#{anchor}"
