#!/usr/bin/env python3
"""Has promtool judge the metrics of a running server, and of a router in front of it.

  tests/tools/metrics_lint.py PROGRAM URL

Names that are vLLM's stay as they are, for those who scrape them, and promtool complains of some.
docs/operating.md lists them all: complaints of these names, of the kinds below, are no fault; any
other complaint is one, and so is a name of vLLM's that only one of page and server has.
Exit status: 0; 1 with a fault; 77 where there is no promtool (in .deps, or installed).
"""

import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/operating.md"
PROMTOOL = shutil.which("promtool") or shutil.which(ROOT / ".deps/promtool/promtool")
FOREIGN = "vllm:"
FORGIVEN = ("metric names should not contain ':'",
            'non-counter metrics should not have "_total" suffix')


def metrics_of(url):
    with urllib.request.urlopen(url + "/metrics", timeout=30) as page:
        return page.read().decode()


def ask(url, model):
    """So that families whose labels are made by requests are there."""
    body = f'{{"model": "{model}", "prompt": "def f(", "max_tokens": 4}}'
    request = urllib.request.Request(url + "/v1/completions", body.encode(),
                                     {"Content-Type": "application/json", "x-slo-ttft-ms": "60000"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def complaints_of(text):
    found = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
    lines = [line for line in found.stderr.splitlines() if line.strip()]
    if found.returncode != 0 and not lines:
        sys.exit(f"promtool ended with {found.returncode} and said nothing")
    return lines


def faults_of(text, allowed):
    faults = []
    for line in complaints_of(text):
        name, _, complaint = line.partition(" ")
        if name not in allowed or complaint not in FORGIVEN:
            faults.append(line)
    return faults


def names_in(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


def router_metrics(program, url):
    router = subprocess.Popen([program, "route", "--port", "0", "--engine", url],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in router.stderr:
            found = re.search(r"listening on (http://\S+:\d+)", line)
            if found:
                front = found[1]
                break
        else:
            sys.exit(f"{program} route ended with {router.wait()}")
        ask(front, "python")
        return metrics_of(front)
    finally:
        router.kill()
        router.wait()


def main():
    program, url = sys.argv[1:]
    if PROMTOOL is None:
        print("there is no promtool: tools/install-headers promtool")
        return 77
    documented = set(re.findall(r"`(" + FOREIGN + r"\w+)`", PAGE.read_text()))
    ask(url, "demo-llama")
    ask(url, "python")
    served = metrics_of(url)
    faults = faults_of(served, documented) + faults_of(router_metrics(program, url), set())
    theirs = {name for name in names_in(served) if name.startswith(FOREIGN)}
    faults += [f"{name} is served and not in {PAGE.name}" for name in sorted(theirs - documented)]
    faults += [f"{name} is in {PAGE.name} and not served" for name in sorted(documented - theirs)]
    # A deliberate error shows that promtool is still called in a way that reports errors.
    bad = "# HELP ours_bad Help\n# TYPE ours_bad counter\nours_bad 1\n"
    if not faults_of(bad, documented):
        faults.append("promtool has nothing to say of a counter without _total")
    print("\n".join(faults) or f"{len(names_in(served))} metrics, {len(theirs)} of them vLLM's")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
