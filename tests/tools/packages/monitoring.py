#!/usr/bin/env python3
"""Holds the dashboard, the alerts and their page against a running server and a router before it.

  tests/tools/packages/monitoring.py PROGRAM URL

Each metric that packaging/ names is served; each alert has its heading in docs/alerts.md, and the other
way round; promtool takes the rules and what rules_test.yml expects of them; and Debian's Prometheus,
with packaging/prometheus/scrape.yml as it is but for the addresses, scrapes both and answers every
expression of rules and dashboard.
Exit status: 0; 1 with a fault; 77 without promtool or prometheus (in .deps, or installed).
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))
import metrics_lint  # noqa: E402

PACKAGING = ROOT / "packaging"
RULES = PACKAGING / "prometheus/rules.yml"
RULES_TEST = ROOT / "tests/tools/packages/rules_test.yml"
PATIENCE_S = 60


def tool(name):
    return shutil.which(name) or shutil.which(ROOT / ".deps/promtool" / name)


def dashboard_expressions():
    panels = json.loads((PACKAGING / "grafana/tandem.json").read_text())["panels"]
    targets = [target for panel in panels for target in panel.get("targets", [])]
    # Replaces Grafana's variables as Grafana would.
    return [target["expr"].replace("$__rate_interval", "1m").replace("$engine", ".*") for target in targets]


def metrics_named(text):
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(?:vllm:|tandem_)\w+", text)}


def static_faults(served):
    rules = re.sub(r"^\s*#.*$", "", RULES.read_text(), flags=re.MULTILINE)
    named = metrics_named(rules + "\n".join(dashboard_expressions()))
    bases = {re.sub("_total$", "", name) for name in served} | served
    faults = [f"{name} is named in packaging/ and not served" for name in sorted(named - bases)]
    alerts = re.findall(r"- alert: (\w+)", rules)
    page = (ROOT / "docs/alerts.md").read_text()
    explained = re.findall(r"^### (\w+)", page, re.MULTILINE)
    faults += [f"docs/alerts.md does not explain {name}" for name in alerts if name not in explained]
    faults += [f"docs/alerts.md explains {name}, which is no alert" for name in explained if name not in alerts]
    cases = re.findall(r"alertname: (\w+)", RULES_TEST.read_text())
    faults += [f"{RULES_TEST.name} has no case of {name}" for name in alerts if name not in cases]
    runbooks = re.findall(r"- alert: (\w+)\n(?:(?!- alert).*\n)*?\s+runbook: docs/alerts.md#(\w+)", rules)
    faults += [f"{name} has no runbook of its own" for name in alerts if (name, name.lower()) not in runbooks]
    return faults


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    def __init__(self, folder, engine, router):
        shutil.copy(RULES, folder)
        config = (PACKAGING / "prometheus/scrape.yml").read_text()
        for at, address in (("127.0.0.1:8000", engine), ("127.0.0.1:8080", router), ("15s", "1s")):
            if at not in config:
                sys.exit(f"scrape.yml does not say {at}")
            config = config.replace(at, address)
        (folder / "prometheus.yml").write_text(config)
        subprocess.run([tool("promtool"), "check", "config", "prometheus.yml"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [tool("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             "--web.listen-address=" + self.url.removeprefix("http://"), "--log.level=error"], cwd=folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def call(self, path, **fields):
        query = "?" + urllib.parse.urlencode(fields) if fields else ""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}{query}", timeout=30) as page:
            return json.load(page)["data"]

    def wait_for_targets(self):
        """Both scraped twice, so that rates are there."""
        deadline = time.monotonic() + PATIENCE_S
        said = ""
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                up = self.call("query", query="sum_over_time(up[1m]) >= 2")["result"]
                if len(up) == 2:
                    return
                said = [target["lastError"] for target in self.call("targets")["activeTargets"]]
            except OSError as failure:
                said = failure
            time.sleep(0.2)
        sys.exit(f"Prometheus did not scrape engine and router: {said}")

    def faults(self):
        found = []
        for group in self.call("rules")["groups"]:
            for rule in group["rules"]:
                if rule.get("lastError"):
                    found.append(f"{rule['name']}: {rule['lastError']}")
                if rule["state"] == "firing":
                    found.append(f"{rule['name']} rings, and all is well")
        for expression in dashboard_expressions():
            try:
                self.call("query", query=expression)
            except OSError as failure:
                found.append(f"{expression}: {failure}")
        return found


def start_router(program, url):
    router = subprocess.Popen([program, "route", "--port", "0", "--engine", url], stderr=subprocess.PIPE, text=True)
    for line in router.stderr:
        if found := re.search(r"listening on (http://\S+:\d+)", line):
            return router, found[1]
    sys.exit(f"{program} route ended with {router.wait()}")


def main():
    program, url = sys.argv[1:]
    if tool("promtool") is None or tool("prometheus") is None:
        print("there is no promtool or no prometheus: tools/install-headers promtool")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(RULES, folder)
        shutil.copy(RULES_TEST, folder)
        for asked in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
            if subprocess.run([tool("promtool"), *asked], cwd=folder, stdout=subprocess.DEVNULL).returncode != 0:
                return 1
        router, front = start_router(program, url)
        try:
            metrics_lint.ask(front, "python")
            served = metrics_lint.names_in(metrics_lint.metrics_of(url) + metrics_lint.metrics_of(front))
            faults = static_faults(served)
            with Prometheus(folder, *(address.removeprefix("http://") for address in (url, front))) as prometheus:
                prometheus.wait_for_targets()
                faults += prometheus.faults()
        finally:
            router.kill()
            router.wait()
    print("\n".join(faults) or f"{len(dashboard_expressions())} expressions of the dashboard, and all rules: answered")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
