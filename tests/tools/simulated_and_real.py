#!/usr/bin/env python3
"""Serves a recorded load by real engines behind a router, and once more in simulated time.

  tests/tools/simulated_and_real.py PROGRAM [--engines 3] [--policy tandem] [--rps 12] [--seconds 60]
                                    [--device host]

Engines on the host device (or all on one GPU, with --device cuda), each with its own cores and all
adapters resident, and `PROGRAM route` in front of them. A first load teaches the engines what their
steps take; then requests with random prompts come by a Poisson process, and what each client saw is
kept. `PROGRAM simulate` is given what the engines say of themselves (/v1/stats) and the same
requests; what lies in front of the engines is measured in the first load. Printed are throughput,
mean TTFT and mean TPOT of both. Exit status: 1 if throughput differs by more than 5 %, a time by
more than 10 %, or a request failed.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "tests/data/demo-llama"
BARS = {"throughput": 0.05, "TTFT": 0.10, "TPOT": 0.10}
COSTS = ("step_s", "request_s", "rank_s", "context_token_s", "prefill_token_s", "prefill_rank_token_s")


class Process:
    """`PROGRAM COMMAND`, ready when its log says so."""

    def __init__(self, arguments, ready, cpus=None):
        pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, preexec_fn=pin)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            found = re.search(r"listening on http://[^:]+:(\d+)", line)
            self.port = int(found[1]) if found else getattr(self, "port", None)
            if ready in line:
                return
        sys.exit(f"{' '.join(map(str, arguments[:2]))} ended with {self.process.wait()}:\n"
                 + "".join(lines[-5:]))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def stats_of(engine):
    with urllib.request.urlopen(engine.url + "/v1/stats", timeout=10) as answer:
        return json.load(answer)


def first_token_times(engine):
    """(sum in seconds, count) of what the engine itself has measured."""
    with urllib.request.urlopen(engine.url + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return [float(re.search(rf"vllm:time_to_first_token_seconds_{part}.*? ([0-9.e+-]+)$", text, re.M)[1])
            for part in ("sum", "count")]


def make_load(options, adapters, seconds, seed):
    """(arrival, adapter, prompt, answer tokens), by arrival."""
    draw = random.Random(seed)
    load, now = [], 0.0
    while (now := now + draw.expovariate(options.rps)) < seconds:
        prompt = [draw.randrange(16, 4000) for _ in range(draw.randint(8, 64))]
        load.append((now, draw.choice(adapters), prompt, draw.randint(8, 64)))
    return load


async def ask(port, began, request):
    arrival, adapter, prompt, answer_tokens = request
    await asyncio.sleep(max(0, began + arrival - time.monotonic()))
    body = json.dumps({"model": adapter["name"], "prompt": prompt, "max_tokens": answer_tokens,
                       "ignore_eos": True, "temperature": 0, "stream": True})
    sent = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                 f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    first = last = None
    done = False
    async for line in reader:
        if line.startswith(b"data: [DONE]"):
            done = True
        elif line.startswith(b"data: "):
            last = time.monotonic()
            first = first or last
    writer.close()
    if not done or first is None:
        return None
    return {"arrival_s": sent - began, "adapter": adapter["name"], "rank": adapter["rank"],
            "prompt_tokens": len(prompt), "answer_tokens": answer_tokens,
            "ttft_s": first - sent, "tpot_s": (last - first) / (answer_tokens - 1),
            "end_s": last - began}


async def serve(port, load, engines=(), seen=None):
    """What each client saw; into `seen`, every two seconds, what the engines say meanwhile."""

    async def look():
        while True:
            await asyncio.sleep(2)
            seen.append([await asyncio.to_thread(stats_of, engine) for engine in engines])

    began = time.monotonic()
    looking = asyncio.create_task(look()) if seen is not None else None
    served = await asyncio.gather(*(ask(port, began, request) for request in load))
    if looking is not None:
        looking.cancel()
    return served


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def real_figures(served):
    tokens = sum(each["answer_tokens"] for each in served)
    return {"throughput": tokens / max(each["end_s"] for each in served),
            "TTFT": 1e3 * mean(each["ttft_s"] for each in served),
            "TPOT": 1e3 * mean(each["tpot_s"] for each in served)}


def simulated_figures(options, seen, served, shares, front_s):
    # Uses the load's own mean, because machines drift. Engines count by what they served.
    costs = {name: mean(sum(share * each["costs"][name] for share, each in zip(shares, stats))
                        for stats in seen) for name in COSTS}
    print("costs learned, us:", ", ".join(f"{name[:-2]} {1e6 * costs[name]:.3f}" for name in COSTS))
    machine = dict(seen[-1][0], costs=dict(seen[-1][0]["costs"], **costs))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "stats.json").write_text(json.dumps(machine))
        lines = (json.dumps(each) for each in sorted(served, key=lambda each: each["arrival_s"]))
        (folder / "requests.jsonl").write_text("\n".join(lines))
        subprocess.run([options.program, "simulate", "--stats", folder / "stats.json", "--requests",
                        folder / "requests.jsonl", "--engines", str(options.engines), "--compare",
                        options.policy, "--cold-start", "cached", "--warmup-s", "0", "--json",
                        folder / "out.json"], check=True, stdout=subprocess.DEVNULL)
        policy = json.loads((folder / "out.json").read_text())["policies"][0]
    return {"throughput": policy["tokens_per_s"],
            "TTFT": policy["ttft_ms"]["mean"] + 1e3 * front_s,
            "TPOT": policy["tpot_ms"]["mean"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--device", choices=("host", "cuda"), default="host")
    parser.add_argument("--policy", default="tandem")
    parser.add_argument("--rps", type=float, default=12)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="FILE", help="write what each client saw, an object a line")
    options = parser.parse_args()

    cpus = sorted(os.sched_getaffinity(0))
    each = max(1, len(cpus) // (options.engines + 1))  # the last share is for the router and this script
    engines, router = [], None
    try:
        for i in range(options.engines):
            own = set(cpus[i * each:(i + 1) * each]) if len(cpus) > options.engines else None
            engines.append(Process(
                [options.program, "serve", "--model", MODEL, "--adapters", MODEL / "adapters",
                 "--port", "0", "--device", options.device, "--no-pin", "--threads", str(each),
                 "--adapter-mode", "cached", "--no-request-log"]
                + (["--pool-gb", "4"] if options.device == "cuda" else []), " ready: ", own))
        router = Process([options.program, "route", "--port", "0", "--policy", options.policy]
                         + [flag for engine in engines for flag in ("--engine", engine.url)],
                         "listening on", set(cpus[options.engines * each:]) or None)
        time.sleep(1)  # until it has statistics of all engines
        adapters = [adapter for adapter in stats_of(engines[0])["adapters"] if adapter["rank"] > 0]
        if not adapters:
            sys.exit("the engine reports no adapter")
        first = asyncio.run(serve(router.port,
                                  make_load(options, adapters, options.seconds / 2, 99)))
        before = [first_token_times(engine) for engine in engines]
        seen = []
        served = asyncio.run(serve(router.port,
                                   make_load(options, adapters, options.seconds, options.seed),
                                   engines, seen))
        after = [first_token_times(engine) for engine in engines]
        seen.append([stats_of(engine) for engine in engines])
    finally:
        for process in [router] * (router is not None) + engines:
            process.stop()

    failed = sum(one is None for one in served)
    served = [one for one in served if one is not None]
    if options.keep:
        pathlib.Path(options.keep).write_text("\n".join(map(json.dumps, served)) + "\n")
    # The time in front of the engines (this client, the router, HTTP) is measured with the first
    # load, because it is not the engines' cost.
    in_engines_s = sum(spent for spent, _ in before) / max(1, sum(count for _, count in before))
    front_s = mean(one["ttft_s"] for one in first if one is not None) - in_engines_s
    counts = [now[1] - then[1] for then, now in zip(before, after)]
    spent_s = sum(now[0] - then[0] for then, now in zip(before, after))
    shares = [count / sum(counts) for count in counts]
    real = real_figures(served)
    print(f"{len(served)} requests at {options.rps:g} a second, {options.engines} engines of {each} "
          f"cores on {options.device}, {options.policy}; {failed} failed")
    print(f"TTFT in front of the engines, by the first load: {1e3 * front_s:.2f} ms; in them, by the "
          f"second: {1e3 * spent_s / sum(counts):.2f} ms")
    simulated = simulated_figures(options, seen, served, shares, front_s)
    missed = failed > 0
    for name, bar in BARS.items():
        off = simulated[name] / real[name] - 1
        missed |= abs(off) > bar
        unit = "tokens/s" if name == "throughput" else "ms"
        print(f"{name:10}: real {real[name]:8.2f} {unit}, simulated {simulated[name]:8.2f}: "
              f"{100 * off:+.1f} % (bar {100 * bar:.0f} %)")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
