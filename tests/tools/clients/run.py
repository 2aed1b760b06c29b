#!/usr/bin/env python3
"""Installs clients of OpenAI's interface, drives a server of the demo model with each, and prints what
came of it: client, version, call, ok or failed. Run by tools/test-clients.

Each client has a virtual environment of its own, build/clients/NAME, made once from PyPI.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
VENVS = HERE.parents[2] / "build" / "clients"

# The packages of each client; the version shown is that of the first. None: this Python suffices.
CLIENTS = {
    "openai": ["openai"],
    "litellm": ["litellm", "mcp"],  # litellm imports it for tools, but does not depend on it
    "langchain": ["langchain-openai"],
    "instructor": ["instructor"],
    "llm": ["llm"],
    "guidellm": ["guidellm"],
    "vllm_bench": [],
    "cohere": ["cohere"],
}
OF_ANOTHER_MODEL = {"cohere"}  # run if they are named: the demo model has no score heads


class NotInstalled(Exception):
    pass


def python_of(name, packages):
    """The client's Python; installs what is missing."""
    if not packages:
        return sys.executable
    folder = VENVS / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists() or done.read_text(encoding="utf-8") != "\n".join(packages):
        print(f"{name}: installing {', '.join(packages)}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        ran = subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                              *packages], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            said = ran.stderr.strip().splitlines() or ["pip failed"]
            raise NotInstalled(f"not installed, is PyPI reachable? {said[-1]}")
        done.write_text("\n".join(packages), encoding="utf-8")
    return str(python)


def version_of(python, packages):
    if not packages:
        return "-"
    ran = subprocess.run([python, "-c", "import importlib.metadata, sys; "
                          "print(importlib.metadata.version(sys.argv[1]))", packages[0]],
                         capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "?"


def drive(name, url):
    """Rows of the table."""
    packages = CLIENTS[name]
    try:
        python = python_of(name, packages)
    except (NotInstalled, OSError, subprocess.CalledProcessError) as failure:
        return [(name, "-", "install", "failed", str(failure))]
    version = version_of(python, packages)
    try:
        ran = subprocess.run([python, str(HERE / f"{name}_calls.py"), url], stdout=subprocess.PIPE, text=True,
                             timeout=900, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    except subprocess.TimeoutExpired:
        return [(name, version, "all", "failed", "no end within 900 s")]
    rows = []
    for line in ran.stdout.splitlines():
        if line.startswith('{"call"'):
            told = json.loads(line)
            rows.append((name, version, told["call"], told["result"], told["why"]))
    if ran.returncode != 0 or not rows:
        rows.append((name, version, "script", "failed", f"ended with {ran.returncode}"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--only", action="append", choices=CLIENTS, metavar="NAME")
    arguments = parser.parse_args()
    rows = [("client", "version", "call", "result", "")]
    for name in arguments.only or [name for name in CLIENTS if name not in OF_ANOTHER_MODEL]:
        rows += drive(name, arguments.url)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[4])
    failed = sum(row[3] == "failed" for row in rows)
    skipped = sum(row[3] == "skipped" for row in rows)
    print(f"{len(rows) - 1} calls: {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
