#!/usr/bin/env python3
"""Runs the console examples of README.md and docs/*.md and compares what they print.

    python3 docs_examples.py PROGRAM URL            exits with 1 if any differs, and shows how
    python3 docs_examples.py PROGRAM URL --update   writes what they print into the pages

PROGRAM is the `tandem` of the examples, URL stands for their http://127.0.0.1:8000: a server of the
demo model as configs/demo.toml has it. One server answers all pages, README.md first, then docs/ by
name. In a block each command begins with "$ "; what follows up to the next is what it prints. Ids and
times differ from run to run and are not compared.
"""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VOLATILE = [
    (re.compile(r'"((?:chat)?cmpl-)[0-9a-f]+"'), r'"\1..."'),
    (re.compile(r'("(?:created|ttft_s|queue_s)": ?)[0-9.e+-]+'), r"\1..."),
]


def examples(block):
    """The commands of a block, each with its continuation lines and with what it is to print."""
    lines = block.splitlines(keepends=True)
    if not lines or not lines[0].startswith("$ "):
        sys.exit(f"docs_examples: a console block does not begin with '$ ':\n{block}")
    found = []
    while lines:
        end = 0
        while lines[end].endswith("\\\n"):
            end += 1
        # A quoted body may span lines: the command ends with its closing single quote.
        while "".join(lines[: end + 1]).count("'") % 2:
            end += 1
        after = end + 1
        while after < len(lines) and not lines[after].startswith("$ "):
            after += 1
        found.append(("".join(lines[: end + 1]), "".join(lines[end + 1 : after])))
        lines = lines[after:]
    return found


def run(command, program, url):
    shell = command.removeprefix("$ ").replace(ADDRESS, url)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True,
                          env=environment, timeout=120, check=False)
    printed = done.stdout + done.stderr
    return printed if printed.endswith("\n") or not printed else printed + "\n"


def joined_events(text):
    """A stream as its whole text and end: how tokens share events is a matter of timing."""
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    chunks = [json.loads(event)["choices"][0] for event in events if event.startswith("{")]
    words = "".join(chunk["text"] for chunk in chunks)
    return f"stream of {words!r}, {chunks[-1]['finish_reason']}, then {events[-1]}\n"


def stable(text):
    if text.startswith("data: {"):
        return joined_events(text)
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def check_page(page, program, url, update):
    """How many examples the page has, and how many of them print something else."""
    text = (ROOT / page).read_text()
    total = different = 0
    for block in BLOCK.findall(text):
        renewed = ""
        for command, expected in examples(block):
            total += 1
            printed = run(command, program, url)
            same = stable(printed) == stable(expected)
            renewed += command + (expected if same else printed)
            if same:
                continue
            different += 1
            if not update:
                print(command)
                print("".join(difflib.unified_diff(stable(expected).splitlines(keepends=True),
                                                   stable(printed).splitlines(keepends=True),
                                                   str(page), "printed")))
        text = text.replace(block, renewed)
    if update and different:
        (ROOT / page).write_text(text)
    return total, different


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    url = sys.argv[2].rstrip("/")
    update = "--update" in sys.argv[3:]
    pages = [pathlib.Path("README.md")]
    pages += sorted(page.relative_to(ROOT) for page in (ROOT / "docs").glob("*.md"))
    all_examples = all_different = 0
    for page in pages:
        total, different = check_page(page, program, url, update)
        all_examples += total
        all_different += different
        if total:
            print(f"{page}: {total} examples, {different} {'updated' if update else 'different'}")
    if not all_examples or (all_different and not update):
        sys.exit(1)


if __name__ == "__main__":
    main()
