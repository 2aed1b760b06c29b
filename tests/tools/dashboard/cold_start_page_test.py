#!/usr/bin/env python3
"""cold_start_page_test.py URL [--screenshots FOLDER]
The picture of a cold start that CPU workers help with, on a dark page: which layers they computed,
and where the device took over. The server at URL has a worker, a link so slow that weights come while
the prompt is computed, and --adapter-mode cpu_assist. Ends with 77 where there is no Chromium."""

import json
import re
import urllib.request

import page_checks as page
from browser import Browser

LAYERS = 8
# The prompt has to take longer than the load. On a busy machine the weights may arrive before the
# first layer is computed, or the worker's answer may be late: then another adapter is tried.
TRIES = 4
PROMPT = "import os\n" * 300


def load(url, name):
    body = json.dumps({"lora_name": name, "lora_path": "python"}).encode()
    request = urllib.request.Request(f"{url}/v1/load_lora_adapter", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()


def picture(browser):
    """What is drawn: the layers of the first step by who computed them, and the line of the takeover."""
    drawn = browser.run("""
        const svg = document.querySelector('#cold-picture svg');
        return {boxes: [...svg.querySelectorAll('rect > title')].map((title) => title.textContent),
                lines: svg.querySelectorAll('line.takeover').length,
                words: svg.querySelector('text.strong')?.textContent};""")
    drawn["layers"] = {}
    for text in drawn["boxes"]:
        box = re.match(r"step 1, layer (\d+): (.+), [\d.–]+ ?", text)
        if box:
            drawn["layers"].setdefault(box[2], []).append(int(box[1]))
    return drawn


def cold_start(browser, url):
    """The name and the picture of one that CPU workers began and the device went on with."""
    browser.wait("document.getElementById('workers-note').textContent.startsWith('1 of 1 up, ')")
    page.ask(browser, PROMPT, "demo-llama", "", 2)  # excludes one-time work for this shape
    for number in range(TRIES):
        name = f"cold-{number}"
        load(url, name)
        page.ask(browser, PROMPT, name, "", 2)
        caption = browser.wait(
            "document.getElementById('cold-caption').textContent.startsWith(arguments[0] + ',') && "
            "document.getElementById('cold-caption').textContent.includes('first step done') && "
            "document.getElementById('cold-caption').textContent", name)
        drawn = picture(browser)
        if drawn["layers"].keys() == {"CPU workers", "device, weights were there"} and "took over" in caption:
            return name, caption, drawn
        print(f"another try: {caption}: {drawn['layers']}")
    raise AssertionError(f"in none of {TRIES} cold starts did CPU workers begin and the device take over")


def check_picture(browser, name, caption, drawn):
    takeover = int(re.search(r"the device took over at layer (\d+)", caption)[1])
    by_cpu, by_gpu = drawn["layers"]["CPU workers"], drawn["layers"]["device, weights were there"]
    assert sorted(by_cpu + by_gpu) == list(range(LAYERS)), drawn
    assert max(by_cpu) == takeover - 1, (caption, drawn)
    assert drawn["lines"] == 2, drawn
    assert re.fullmatch(rf"the device takes over at layer {takeover}, after [\d.]+ (ms|s)", drawn["words"]), drawn
    row = browser.run("return document.querySelector('#cold-list tr.chosen').innerText").split("\t")
    said = browser.wait("document.getElementById('cold-headline').textContent.startsWith('First') && "
                        "document.getElementById('cold-headline').textContent")
    assert re.fullmatch(r"First token after [\d.]+ (ms|s), load [\d.]+ (ms|s)", said), said
    assert row[1] == name and row[-2:] == [f"{len(by_cpu)} of {LAYERS}", f"layer {takeover}"], row


def check_zoom(browser):
    """All of the load, a half of it, and that half moved to the right: as the labels of the axis say."""
    def labels():
        return browser.run("return [...document.querySelectorAll('#cold-picture text[text-anchor=middle]')]"
                           ".map((text) => text.textContent)")

    browser.click("#cold-whole")
    whole = labels()
    assert whole[0] == "0" and browser.run(
        "return document.getElementById('cold-whole').getAttribute('aria-pressed')") == "true", whole
    assert browser.run("return document.querySelectorAll('#cold-overview .shown').length") == 0
    browser.click("#cold-in")
    assert labels()[0] != "0" and len(browser.run(
        "return [...document.querySelectorAll('#cold-overview .shown')]")) == 1, labels()
    browser.click("#cold-first")
    assert labels()[0] == "0", labels()


def check_dark(browser):
    colours = browser.run("""
        const of = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
        return [of('body', 'backgroundColor'), of('#cold-picture rect.cpu[rx]', 'fill'),
                of('#cold-picture rect.gpu[rx]', 'fill'), of('#cold-caption', 'color')]
            .map((colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number));""")
    ground, *others = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in colours]
    assert ground < 40, colours
    assert all(other > ground + 60 for other in others), colours
    assert colours[1] != colours[2], colours


def is_drawn(url, keep):
    with Browser(1280, 900, dark=True) as browser:
        page.open_page(browser, url)
        name, caption, drawn = cold_start(browser, url)
        check_picture(browser, name, caption, drawn)
        check_dark(browser)
        check_zoom(browser)
        keep(browser, "cold_dark")
        page.check_on_a_phone(browser)
        keep(browser, "cold_dark_phone")
        page.check_console(browser)
    return f": {caption}"


if __name__ == "__main__":
    page.run(is_drawn)
