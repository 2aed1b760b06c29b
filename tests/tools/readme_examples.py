#!/usr/bin/env python3
"""Runs README.md's curl examples against a running server and compares what they print.

    python3 readme_examples.py URL            exits with 1 if any differs, and shows how
    python3 readme_examples.py URL --update   writes what they print into README.md

URL stands for http://127.0.0.1:8000 of the examples. The server serves the demo model as
configs/demo.toml has it. Ids and times differ from run to run and are not compared.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```console\n(\$ curl .*?)^```$", re.MULTILINE | re.DOTALL)
VOLATILE = [
    (re.compile(r'"((?:chat)?cmpl-)[0-9a-f]+"'), r'"\1..."'),
    (re.compile(r'("(?:created|ttft_s|queue_s)": ?)[0-9.e+-]+'), r"\1..."),
]


def split(block):
    """The command, with its continuation lines, and what the README says that it prints."""
    lines = block.splitlines(keepends=True)
    end = 0
    while lines[end].endswith("\\\n"):
        end += 1
    # A quoted body may span lines: the command ends where its single quotes are closed.
    while "".join(lines[: end + 1]).count("'") % 2:
        end += 1
    return "".join(lines[: end + 1]), "".join(lines[end + 1 :])


def run(command, url):
    shell = command.removeprefix("$ ").replace(ADDRESS, url)
    done = subprocess.run(["bash", "-c", shell], cwd=README.parent, capture_output=True, text=True,
                          timeout=120, check=False)
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


def main():
    url = sys.argv[1].rstrip("/")
    update = "--update" in sys.argv[2:]
    text = README.read_text()
    different = 0
    blocks = BLOCK.findall(text)
    for block in blocks:
        command, expected = split(block)
        printed = run(command, url)
        if stable(printed) == stable(expected):
            continue
        different += 1
        if update:
            text = text.replace(block, command + printed)
            continue
        print(command)
        print("".join(difflib.unified_diff(stable(expected).splitlines(keepends=True),
                                           stable(printed).splitlines(keepends=True),
                                           "README.md", "printed")))
    if update:
        README.write_text(text)
    print(f"{len(blocks)} examples, {different} {'updated' if update else 'different'}")
    if not blocks or (different and not update):
        sys.exit(1)


if __name__ == "__main__":
    main()
