#!/usr/bin/env python3
"""How long small calls take while others ask for whole answers of megabytes.

  tests/tools/long_answers.py PROGRAM ... [--clients 6] [--seconds 10] [--device host]

Of each program printed: the time of POST /tokenize, which asks nothing of the engine, median and
99th percentile, one after the other on a connection of its own; first alone, then while so many
clients ask for answers of some 8 MB (echoed prompts with log probabilities), as fast as they get
them. What is seen is the wait for those who write these. Name two builds to compare them.
Exit status: 0, or 1 if a call failed.
"""

import argparse
import http.client
import json
import multiprocessing
import sys
import time

from many_streams import Server

LONG = {"prompt": [5] * 250, "n": 64, "max_tokens": 0, "echo": True, "logprobs": 20}
SMALL = {"prompt": "def f("}


def call(connection, path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {text[:200]}")
    return len(text)


def ask_for_long_ones(port, stop, answers, sent):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while not stop.is_set():
        length = call(connection, "/v1/completions", LONG)
        with answers.get_lock():
            answers.value += 1
            sent.value += length


def report(port, seconds, when):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        call(connection, "/tokenize", SMALL)
        took.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.002)
    took.sort()
    print(f"  {when:16} {took[len(took) // 2]:7.2f} ms median, {took[len(took) * 99 // 100]:7.2f} ms p99, "
          f"{took[-1]:7.2f} ms at most, of {len(took)} calls", flush=True)


def measure(program, options):
    with Server(argparse.Namespace(program=program, device=options.device, streams=64), 2048) as server:
        print(program)
        report(server.port, options.seconds / 2, "alone:")
        stop = multiprocessing.Event()
        answers, sent = multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
        clients = [multiprocessing.Process(target=ask_for_long_ones,
                                           args=(server.port, stop, answers, sent))
                   for _ in range(options.clients)]
        for each in clients:
            each.start()
        while answers.value == 0 and all(each.is_alive() for each in clients):
            time.sleep(0.01)
        began, before = time.monotonic(), answers.value
        report(server.port, options.seconds, f"{options.clients} long ones:")
        per_s = (answers.value - before) / (time.monotonic() - began)
        stop.set()
        for each in clients:
            each.join()
        print(f"  {per_s:.1f} long answers a second, {sent.value / answers.value / 1e6:.1f} MB each")
        return any(each.exitcode for each in clients)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="+")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--device", default="host")
    options = parser.parse_args()
    sys.exit(1 if any([measure(program, options) for program in options.program]) else 0)


if __name__ == "__main__":
    main()
