"""What every test of the dashboard does, and asks of every page."""

import json
import shutil
import sys
import time

from browser import Browser

ROW = '#adapter-table [data-name="{}"]'
PHONE = 390
SKIPPED = 77


def missing_browser():
    """Whether there is no Chromium here, said if so."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            print(f"there is no {program} here (Debian: chromium, chromium-driver): skipped")
            return True
    return False


def run(test):
    """Ends the process with what ctest reads. The test takes the words of the command line, and a
    function to which it gives its pages as (browser, name): with --screenshots FOLDER they are kept
    there. What it returns is told."""
    if missing_browser():
        sys.exit(SKIPPED)
    words, folder = sys.argv[1:], None
    if "--screenshots" in words:
        at = words.index("--screenshots")
        words, folder = words[:at], words[at + 1]

    def keep(browser, name):
        if folder:
            browser.screenshot(f"{folder}/{name}.png", whole=True)

    begin = time.monotonic()
    told = test(*words, keep)
    print(f"{time.monotonic() - begin:.1f} s{told}")


def show(browser, name):
    """Filters the table, so that its row is in view."""
    browser.run("""const filter = document.getElementById('adapter-filter');
        filter.value = arguments[0];
        filter.dispatchEvent(new Event('input'));""", name)


def load_adapter(browser, name, folder):
    browser.write("#load-name", name)
    browser.write("#load-path", folder)
    browser.click("#load-button")
    show(browser, name)
    browser.wait("document.querySelector(arguments[0])", ROW.format(name))


def ask(browser, prompt, left, right, tokens):
    """One prompt, until both sides have said its end."""
    browser.run("document.getElementById('try-prompt').value = arguments[0]", prompt)  # typing is slow
    browser.write("#try-a", left)
    browser.write("#try-b", right)
    browser.write("#try-tokens", str(tokens))
    browser.click("#try-run")
    for side in "ab" if right else "a":
        browser.wait("document.querySelector(arguments[0]).textContent.includes(arguments[1])",
                     f"#try-{side}-note", f"{tokens} tokens")
        assert browser.run("return document.querySelector(arguments[0]).textContent", f"#try-{side}-text")


def pin(browser, name, pinned=True):
    """As the row's button says, until the row says that it is so."""
    row = ROW.format(name)
    browser.click(f'{row} button[aria-label="{"Pin" if pinned else "Unpin"} {name}"]')
    browser.wait("document.querySelector(arguments[0])",
                 f'{row} button[aria-label="{"Unpin" if pinned else "Pin"} {name}"]')


def unload(browser, name):
    row = ROW.format(name)
    browser.click(f'{row} button[aria-label="Unload {name}"]')
    browser.click(f'{row} button[aria-label="Really unload {name}"]')
    browser.wait("document.querySelector(arguments[0]) === null", row)


def check_names(browser):
    """Every control has a name that a screen reader says."""
    browser.look(names_are_said)


def names_are_said(browser):
    count = browser.run("""const all = [...document.querySelectorAll('button, input, select, textarea, [tabindex]')];
        all.forEach((each) => each.removeAttribute('data-control'));
        const shown = all.filter((each) => each.checkVisibility());
        shown.forEach((each, i) => each.setAttribute('data-control', i));
        return shown.length;""")
    assert count > 20, count
    for i in range(count):
        name = browser.name_of(f'[data-control="{i}"]')
        assert name.strip(), browser.run("return document.querySelector(arguments[0]).outerHTML",
                                         f'[data-control="{i}"]')
    pictures = browser.run("""return [...document.querySelectorAll('[role=img]')]
        .filter((each) => each.checkVisibility() && !each.getAttribute('aria-label')).map((each) => each.outerHTML)""")
    assert not pictures, pictures


def check_on_a_phone(browser):
    """Fits, with names; a row's buttons are on the screen. Leaves the page narrow."""
    browser.resize(PHONE, 844)
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= PHONE, f"the page is {wide} px wide on a phone"
    check_names(browser)
    beyond = browser.run("""return [...document.querySelectorAll('#adapter-table .actions button')]
        .filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth)
        .map((each) => each.outerHTML)""")
    assert not beyond, beyond


def check_console(browser, expected=()):
    """No errors but answers with these statuses."""
    errors = [entry for entry in browser.console() if entry["level"] == "SEVERE"
              and not any(status in entry["message"] for status in expected)]
    assert not errors, json.dumps(errors, indent=1)


def open_page(browser, url):
    browser.open(url)
    browser.wait("document.getElementById('link').textContent === 'live'")
