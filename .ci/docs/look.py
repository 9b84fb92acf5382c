"""Look at the built documentation in a real browser (Chromium, headless), as a reader would.

Every page opens without an error on the console and is not wider than the screen; its pictures
have loaded; the search finds a class and leads to it. Pages with pictures or the widest tables are
looked at on a phone's width too. The reference has every public name and every field.

    python .ci/docs/look.py build/site
"""

from __future__ import annotations

import dataclasses
import functools
import http.server
import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import jetsync.config
import jetsync.errors
import jetsync.server

DESKTOP, PHONE = (1280, 900), (390, 844)
ON_A_PHONE = ("index.html", "performance.html", "reliability.html", "guide/permissions.html")
PATIENCE = 20  # seconds for one page

BROKEN_PICTURES = """
return [...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src)
"""
WIDTH = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


SEARCH = "/search/search_index.json"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site. Each page that opens reads the whole index of the search, which takes a
    browser most of the time: an empty one will do but where the search is looked at."""

    searching = False

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != SEARCH or Quiet.searching:
            super().do_GET()
            return
        index = json.loads(Path(self.translate_path(self.path)).read_text(encoding="utf-8"))
        nothing = json.dumps({**index, "docs": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(nothing)))
        self.end_headers()
        self.wfile.write(nothing)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def browser(size: tuple[int, int]) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    phone = {"width": size[0], "height": size[1], "pixelRatio": 1.0}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": phone})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_page_load_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()


def of_page(driver: webdriver.Chrome, url: str) -> list[str]:
    driver.get(url)
    found = [e["message"] for e in driver.get_log("browser") if e["level"] in ("SEVERE", "ERROR")]
    found += [f"picture {source} did not load" for source in driver.execute_script(BROKEN_PICTURES)]
    wide, screen = driver.execute_script(WIDTH)
    if wide > screen:
        found.append(f"is {wide} pixels wide on a screen of {screen}")
    if not driver.find_elements(By.CSS_SELECTOR, "article h1"):
        found.append("has no title")
    return found


def of_search(driver: webdriver.Chrome, root: str) -> list[str]:
    Quiet.searching = True
    driver.get(f"{root}/index.html")
    wait = WebDriverWait(driver, PATIENCE)
    driver.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]").click()
    driver.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]").send_keys(
        "PubAckFuture"
    )
    first = wait.until(
        lambda d: d.find_elements(By.CSS_SELECTOR, ".md-search-result__item a[href*=reference]")
    )[0]
    driver.get(first.get_attribute("href"))
    if "PubAckFuture" not in driver.find_element(By.TAG_NAME, "article").text:
        return ["the search for PubAckFuture does not lead to it"]
    driver.get(f"{root}/index.html")
    tabs = driver.find_elements(By.CSS_SELECTOR, ".md-tabs__link")
    return [] if len(tabs) >= 5 else [f"the navigation has {len(tabs)} tabs"]


def of_reference(folder: Path) -> list[str]:
    """Public names that have no section in the reference, and fields that its page lacks."""
    words_by: dict[str, set[str]] = {}  # a section's title -> the words of its page
    for page in (folder / "reference").glob("*.html"):
        html = page.read_text(encoding="utf-8")
        words = set(re.findall(r"\w+", re.sub(r"<[^>]+>", " ", html)))
        words_by |= dict.fromkeys(re.findall(r'<h2 [^>]*id="([^"]+)"', html), words)
    faults = []
    for package in (jetsync.errors, jetsync.config, jetsync.server, jetsync):
        for name in package.__all__:
            full = f"{package.__name__}.{name}"
            if package is jetsync and full not in words_by:
                elsewhere = (f"jetsync.{other}.{name}" for other in ("errors", "config"))
                full = next((place for place in elsewhere if place in words_by), full)
            if name.startswith("__"):
                continue
            if full not in words_by:
                faults.append(f"the reference does not have {full}")
            elif dataclasses.is_dataclass(public := getattr(package, name)):
                fields = {f.name for f in dataclasses.fields(public) if not f.name.startswith("_")}
                lacking = sorted(fields - words_by[full])
                faults += [f"the reference does not have {full}.{field}" for field in lacking]
    return sorted(set(faults))


def main(folder: Path) -> int:
    pages = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html"))
    pages = [page for page in pages if page != "404.html"]
    faults = []
    with served(folder) as root:
        with browser(DESKTOP) as driver:
            faults += [f"{page}: {f}" for page in pages for f in of_page(driver, f"{root}/{page}")]
        with browser(PHONE) as driver:
            for page in ON_A_PHONE:
                faults += [f"phone: {page}: {f}" for f in of_page(driver, f"{root}/{page}")]
        with browser(DESKTOP) as driver:
            faults += of_search(driver, root)
    faults += of_reference(folder)
    print(*faults, sep="\n")
    print(f"{len(pages)} pages, {len(ON_A_PHONE)} of them on a phone too: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
