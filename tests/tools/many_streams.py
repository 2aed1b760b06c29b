#!/usr/bin/env python3
"""Opens many streams at once, and prints what they cost the server.

  tests/tools/many_streams.py PROGRAM [--streams 2000] [--running 1] [--tokens 32] [--device host]

First streams that wait for their turn: one sequence runs at a time, so that all but one have
nothing to say. Printed are the resident memory and the threads of `PROGRAM serve` without clients,
with as many connections that have not asked, with as many streams, and when all have gone.
With --running N a second server runs N sequences at a time, and all streams are read to their end:
tokens a second, the first chunk's delay, and whether each got all of its tokens and its [DONE].
Exit status: 0, or 1 if a stream was refused or cut short.
"""

import argparse
import json
import pathlib
import re
import resource
import selectors
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "tests/data/demo-llama"
DEADLINE_S = 300


class Server:
    def __init__(self, options, running, more=()):
        self.process = subprocess.Popen(
            [options.program, "serve", "--model", MODEL, "--port", "0", "--no-pin",
             "--device", options.device, "--max-num-seqs", str(running), "--no-request-log",
             "--max-connections", str(options.streams + 8), *more],
            stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on http://[^:]+:(\d+)", line)
            self.port = int(found[1]) if found else getattr(self, "port", None)
            if " ready: " in line:
                return
        sys.exit(f"{options.program} serve ended with {self.process.wait()}")

    def connect(self, count):
        return [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]

    def figures(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        rss_kb = int(re.search(r"VmRSS:\s+(\d+)", text)[1])
        threads = int(re.search(r"Threads:\s+(\d+)", text)[1])
        return rss_kb, threads

    def settled(self):
        """The figures when they have stood still for a second."""
        last, since = None, time.monotonic()
        for _ in range(600):
            now = self.figures()
            if last is None or now[1] != last[1] or abs(now[0] - last[0]) > 256:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > 1:
                break
            time.sleep(0.05)
        return last

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


def request(tokens):
    body = json.dumps({"prompt": "Once", "stream": True, "max_tokens": tokens, "ignore_eos": True,
                       "stream_options": {"include_usage": True}})
    return (f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()


def wait_for_turns(options):
    """Streams that have nothing to say. Returns how many were refused."""
    count = options.streams
    with Server(options, 1) as server:
        before = server.settled()
        print(f"no client:        {before[0] / 1024:7.1f} MiB, {before[1]} threads")
        sockets = server.connect(count)
        idle = server.settled()
        print(f"{count} connections: {idle[0] / 1024:7.1f} MiB, {idle[1]} threads, "
              f"{(idle[0] - before[0]) / count:.1f} KiB each")
        began = time.monotonic()
        for each in sockets:
            each.sendall(request(200))
        refused = sum(not each.recv(12).endswith(b" 200") for each in sockets)
        took = time.monotonic() - began
        streams = server.settled()
        print(f"{count} streams:     {streams[0] / 1024:7.1f} MiB, {streams[1]} threads, "
              f"{(streams[0] - before[0]) / count:.1f} KiB each; all began within {took:.2f} s, "
              f"{refused} refused")
        for each in sockets:
            each.close()
        gone = server.settled()
        print(f"all gone:         {gone[0] / 1024:7.1f} MiB, {gone[1]} threads")
        return refused


def run_all(options):
    """Streams that are all read to their end. Returns how many were not whole."""
    with Server(options, options.running) as server:
        sockets = server.connect(options.streams)
        selector = selectors.DefaultSelector()
        texts = {}
        began = time.monotonic()
        for each in sockets:
            each.sendall(request(options.tokens))
            each.setblocking(False)
            selector.register(each, selectors.EVENT_READ)
            texts[each] = bytearray()
        first, peak = {}, 0
        while selector.get_map() and time.monotonic() - began < DEADLINE_S:
            for key, _ in selector.select(1):
                each = key.fileobj
                data = each.recv(1 << 16)
                if not data:
                    selector.unregister(each)
                    continue
                texts[each] += data
                if each not in first and b"data: " in data:
                    first[each] = time.monotonic() - began
            peak = max(peak, server.figures()[0]) if len(first) % 50 == 0 else peak
        took = time.monotonic() - began
        wanted = f'"completion_tokens":{options.tokens},'.encode()
        whole = sum(b"data: [DONE]" in text and wanted in text for text in texts.values())
        delays = sorted(first.values())
        print(f"{options.streams} streams, {options.running} at a time: {whole} whole, "
              f"{whole * options.tokens / took:.0f} tokens/s, first chunk after "
              f"{delays[len(delays) // 2]:.2f} s (median) and {delays[-1]:.2f} s (last), "
              f"{max(peak, server.figures()[0]) / 1024:.1f} MiB")
        return options.streams - whole


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--running", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--device", default="host")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    failed = wait_for_turns(options)
    if options.running > 1:
        failed += run_all(options)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
