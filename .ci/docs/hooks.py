"""What the documentation site has beyond docs/: pages that stand elsewhere, and the reference.

- README, CHANGELOG, SECURITY, CONTRIBUTING, the examples and the benchmarks become pages where the
  links of the repository lead to them.
- The reference has every public name: its pages are made from the ``__all__`` of the packages, so a
  name cannot be forgotten. mkdocstrings fills them from docstrings, stubs and annotations.
- ``llms.txt`` lists the pages for programs that read (https://llmstxt.org).
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "benchmarks/README.md": "benchmarks/README.md",
    "examples/README.md": "examples/README.md",
}
# The daily names of `jetsync.__all__` are in groups, in this order; each begins with this name.
GROUPS = {
    "Connections and messages": "connect",
    "Streams and consumers": "JetStream",
    "Publishing": "AUTO",
    "Key-value stores": "KeyValue",
    "Object stores": "ObjectStore",
}
# How the search ranks pages that have the same words: guides first, pages for developers last.
SEARCH_BOOST = {
    "guide/": 4,
    "guide/consume": 8,
    "guide/troubleshooting": 8,
    "CHANGELOG": 0.2,
    "CONTRIBUTING": 0.2,
    "internals/": 0.2,
    "benchmarks/": 0.2,
    "examples/": 0.5,
}
INTERNAL = {
    "_core",
    "client",
    "cli",
    "contrib",
    "errors",
    "jetstream",
    "kv",
    "objectstore",
    "protocol",
}


def on_config(config: MkDocsConfig) -> None:
    if os.environ.get("MIKE_DOCS_VERSION"):  # deploy.py builds one version of several
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    for section in config.nav or []:
        if "Reference" in section:
            section["Reference"] = [{title: uri} for title, uri, _ in reference()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    for path, uri in ELSEWHERE.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    for program in sorted((ROOT / "examples").rglob("*.py")):
        uri = program_page(program.relative_to(ROOT).as_posix())
        text = f"# {program.name}\n\n```python\n{program.read_text()}```\n"
        linked = InclusionLevel.NOT_IN_NAV  # examples/README.md leads to each of them
        files.append(File.generated(config, uri, content=text, inclusion=linked))
    for _, uri, text in reference():
        files.append(File.generated(config, uri, content=text))
    listed = "".join(
        f"- [{title}]({uri.removesuffix('.md')}.html)\n" for title, uri in titles(config.nav)
    )
    files.append(
        File.generated(
            config, "llms.txt", content=f"# jetsync\n\n> {config.site_description}\n\n{listed}"
        )
    )


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links lead to the pages of the site, and say how the search ranks this page."""
    for beginning, boost in SEARCH_BOOST.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    here = next((p for p, uri in ELSEWHERE.items() if uri == page.file.src_uri), None)
    here = here or f"docs/{page.file.src_uri}"

    def moved(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        if "://" in target:
            return match[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if wanted in ELSEWHERE:
            uri = ELSEWHERE[wanted]
        elif wanted.startswith("examples/") and wanted.endswith(".py"):
            uri = program_page(wanted)
        else:
            uri = wanted.removeprefix("docs/")
        there = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"]({there}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    parts[::2] = [re.sub(r"\]\(([^)#\s]+)(#[^)\s]*)?\)", moved, part) for part in parts[::2]]
    return "".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of the roles in docstrings: :class:`Connection`, :meth:`~Connection.close`."""
    if not page.file.src_uri.startswith("reference/"):
        return html
    role = r":(?:class|meth|func|attr|exc|data|mod|obj):<code>~?([\w.]+)</code>"
    return re.sub(role, lambda m: link(m[1].removeprefix("jetsync.")), html)


def link(name: str) -> str:
    return f'<autoref optional identifier="jetsync.{name}"><code>{name}</code></autoref>'


def program_page(path: str) -> str:
    return path.removesuffix(".py").replace("/", "/program_", 1) + ".md"


def titles(nav: object) -> Iterator[tuple[str, str]]:
    if isinstance(nav, list):
        for item in nav:
            yield from titles(item)
    elif isinstance(nav, dict):
        for title, below in nav.items():
            if isinstance(below, str):
                yield title, below
            else:
                yield from titles(below)
    elif isinstance(nav, str):
        yield "Start", nav


def reference() -> Iterator[tuple[str, str, str]]:
    """The pages of the reference: title, place and text."""
    elsewhere = {*public("jetsync/errors/__init__.py"), *public("jetsync/config.py")}
    daily = [name for name in public("jetsync/__init__.py") if name not in elsewhere]
    begins = [daily.index(name) for name in GROUPS.values()] + [len(daily)]
    for title, begin, end in zip(GROUPS, begins, begins[1:], strict=False):
        yield entry(title, "jetsync", daily[begin:end])
    yield entry("Configurations and infos", "jetsync.config", public("jetsync/config.py"))
    yield entry("Errors", "jetsync.errors", public("jetsync/errors/__init__.py"))
    yield "Errors by number", "reference/error-numbers.md", error_numbers()
    for path in sorted((ROOT / "jetsync").glob("*/__init__.py")):
        if path.parent.name not in INTERNAL and (names := public(path.relative_to(ROOT))):
            yield entry(f"jetsync.{path.parent.name}", f"jetsync.{path.parent.name}", names)


def entry(title: str, package: str, names: list[str]) -> tuple[str, str, str]:
    uri = "reference/" + re.sub(r"\W+", "-", title.lower()) + ".md"
    return title, uri, f"# {title}\n\n" + "".join(f"::: {package}.{name}\n\n" for name in names)


def public(path: str | Path) -> list[str]:
    """The ``__all__`` of a module, read without importing it."""
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    return []


def error_numbers() -> str:
    from jetsync.errors.api import ERR_CODES

    rows = "".join(
        f"| {number} | [`{kind.__name__}`][jetsync.errors.{kind.__name__}] | "
        f"{'yes' if kind.retryable else 'no'} |\n"
        for number, kind in sorted(ERR_CODES.items())
    )
    return f"""# Errors by number

The `err_code` of a server's refusal, and the class that it is raised as. Every other number is a
plain [`APIError`][jetsync.errors.APIError]. *Retryable* means that the same request can succeed
later without any change.

| `err_code` | class | retryable |
| --- | --- | --- |
{rows}"""
