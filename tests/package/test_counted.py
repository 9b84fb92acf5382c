"""A number and its noun agree wherever a text for people has them: "1 message", "2 messages"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from jetsync._counted import counted

ROOT = Path(__file__).parents[2] / "jetsync"
# Words in s behind a value that are no noun.
VERBS = {
    *("asks", "belongs", "delivers", "differs", "does", "excludes", "has", "holds", "is", "keeps"),
    *("leaves", "makes", "names", "needs", "offers", "or", "refused", "replays", "runs", "says"),
    *("speaks", "stays", "takes", "this", "was"),
}
BEHIND = re.compile(r" (?!in |is |as |was |ms\b)(?:([a-z]+) )?([a-z]+s)\b(?!/)")
LOGGED = re.compile(r"%(?:d|\.\d[fg]|g) (?!of |in )(?:[a-z]+ )?([a-z]+s)\b")
# Names of values that are texts.
TEXTS = {"bucket", "description", "key", "name", "netloc", "path", "shell", "what"}


def uncounted(text: str) -> list[int]:
    """Return the lines of a module that put a number before a plural without ``counted``.

    A name in capital letters is a constant: it fits its noun by being read.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            pairs = zip(node.values, node.values[1:], strict=False)
            found += [one.lineno for one, behind in pairs if _is_uncounted(one, behind)]
        elif isinstance(node, ast.Constant) and not VERBS.issuperset(
            LOGGED.findall(str(node.value))
        ):
            found.append(node.lineno)
    return found


def _is_uncounted(value: ast.expr, behind: ast.expr) -> bool:
    if not isinstance(value, ast.FormattedValue) or not isinstance(behind, ast.Constant):
        return False
    name = ast.unparse(value.value).rpartition(".")[2]
    match = BEHIND.match(str(behind.value))
    is_number = value.conversion == -1 and name not in TEXTS and not name.isupper()
    return is_number and match is not None and not VERBS & {*match.groups()}


def test_the_noun_fits_its_number():
    assert [counted(n, "message") for n in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert counted(1, "reply", "replies") == "1 reply"
    assert counted(2, "message was", "messages were") == "2 messages were"
    assert counted(2000, "message", form=",") == "2,000 messages"
    assert counted(1.5, "second", form=".2g") == "1.5 seconds"


def test_the_check_finds_a_plural_behind_a_number():
    assert uncounted('f"{count} messages"') == [1]
    assert uncounted('f"{count:,} unread messages"') == [1]
    assert uncounted('log("%d rows", count)') == [1]
    assert uncounted('f"{name} has bytes; {text!r} lines; {_MOST} bytes; {rate} bytes/s"') == []


def test_every_text_has_the_noun_that_fits_its_number():
    """Reprs, errors, log lines and what the command line prints."""
    found = {
        path.relative_to(ROOT).as_posix(): uncounted(path.read_text())
        for path in sorted(ROOT.rglob("*.py"))
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_texts_of_compiled_code_too():
    plural = re.compile(r"\{[^}!]*\}" + BEHIND.pattern)
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "_core").glob("*.pyx"))
        for line in path.read_text().splitlines()
        if any(not VERBS & {*match} for match in plural.findall(line))
    ]
    assert found == []
