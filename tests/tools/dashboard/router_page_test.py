#!/usr/bin/env python3
"""router_page_test.py TANDEM URL [--screenshots FOLDER]
Drives the dashboard of a router in front of the engine at URL, in a headless Chromium: an adapter
loaded, a prompt, the decision with its cost, pinned, unloaded. Ends with 77 where there is no
Chromium."""

import contextlib
import json
import re
import subprocess
import threading
import urllib.request

import page_checks as page
from browser import Browser

NAME = "from-router"
PATIENCE_S = 30


@contextlib.contextmanager
def router(tandem, engine):
    """In front of this engine; yields its address once it takes requests."""
    process = subprocess.Popen([tandem, "route", "--port", "0", "--engine", engine, "--policy", "tandem"],
                               stderr=subprocess.PIPE, text=True)
    lines = []
    found = threading.Event()

    def read():
        for line in process.stderr:
            lines.append(line)
            if "listening on" in line:
                found.set()
        found.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        found.wait(PATIENCE_S)
        address = re.search(r"listening on (http://[\d.:]+)", "".join(lines))
        assert address, "".join(lines)
        yield address[1]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        reader.join()
    assert process.returncode == 0, f"the router ended with {process.returncode}: {''.join(lines)}"


def adapter_of(engine):
    with urllib.request.urlopen(f"{engine}/v1/adapters", timeout=PATIENCE_S) as answer:
        return next(each for each in json.load(answer)["data"] if each["name"] == NAME)


def check_decision(browser):
    """That it went to the engine, what it cost, and of what the cost is made."""
    row = browser.wait("""[...document.querySelectorAll('#decision-list tbody tr')]
        .map((row) => ({cells: [...row.cells].map((cell) => cell.textContent),
                        terms: row.querySelector('.parts[role=img]')?.getAttribute('aria-label'),
                        wide: [...row.querySelectorAll('.parts i')].map((part) => parseFloat(part.style.width))}))
        .find((row) => row.cells[1] === arguments[0])""", NAME)
    assert row["cells"][3].startswith("127.0.0.1:"), row
    assert re.fullmatch(r"[\d.]+ (µs|ms|s)", row["cells"][5]), row
    assert "prompt" in row["terms"] and "output tokens" in row["terms"], row
    assert abs(sum(row["wide"]) - 100) < 0.5, row
    assert browser.run("return document.getElementById('decision-share').textContent").startswith("the last 1: 100 %")


def works(tandem, engine, keep):
    with router(tandem, engine) as url, Browser(1280, 900) as browser:
        page.open_page(browser, url)
        browser.wait("document.querySelector('#engines-list tbody')?.textContent.includes('accepts')")
        page.load_adapter(browser, NAME, "python")
        page.ask(browser, "import os\nimport sys\n", NAME, "", 12)
        check_decision(browser)
        page.pin(browser, NAME)
        assert adapter_of(engine)["pinned"]
        mark = browser.wait("document.querySelector(arguments[0])?.getAttribute('aria-label')",
                            page.ROW.format(NAME) + " [aria-label*=pinned]")
        place = engine.removeprefix("http://")
        assert mark == f"{place}, pinned on {place}", mark
        page.show(browser, "")
        page.check_names(browser)
        keep(browser, "router_wide")
        page.check_on_a_phone(browser)
        keep(browser, "router_phone")
        browser.resize(1280, 900)
        page.show(browser, NAME)
        page.pin(browser, NAME, pinned=False)
        assert not adapter_of(engine)["pinned"]
        page.unload(browser, NAME)
        page.check_console(browser)
    return ""


if __name__ == "__main__":
    page.run(works)
