#!/usr/bin/env python3
"""Opens streams that wait for their turn, and prints what they cost the server.

  tests/tools/idle_streams.py PROGRAM [STREAMS]      2000 unless told

One sequence runs at a time, so all streams but one have nothing to say. Printed are the resident
memory and the threads of `PROGRAM serve` without clients, with as many connections that have not
asked, with as many streams, and when all have gone. Exit status: 0, or 1 if a stream was refused.
"""

import json
import pathlib
import re
import resource
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "tests/data/demo-llama"


def figures(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss_kb = int(re.search(r"VmRSS:\s+(\d+)", text)[1])
    threads = int(re.search(r"Threads:\s+(\d+)", text)[1])
    return rss_kb, threads


def settled(pid):
    """The figures when they have stood still for a second."""
    last, since = None, time.monotonic()
    for _ in range(600):
        now = figures(pid)
        if last is None or now[1] != last[1] or abs(now[0] - last[0]) > 256:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1:
            break
        time.sleep(0.05)
    return last


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 2000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    server = subprocess.Popen(
        [sys.argv[1], "serve", "--model", MODEL, "--port", "0", "--no-pin", "--max-num-seqs", "1",
         "--max-connections", str(count + 8)],
        stderr=subprocess.PIPE, text=True)
    port = None
    for line in server.stderr:
        found = re.search(r"listening on http://[^:]+:(\d+)", line)
        port = int(found[1]) if found else port
        if " ready: " in line:
            break
    try:
        before = settled(server.pid)
        print(f"no client:        {before[0] / 1024:7.1f} MiB, {before[1]} threads")
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        idle = settled(server.pid)
        print(f"{count} connections: {idle[0] / 1024:7.1f} MiB, {idle[1]} threads, "
              f"{(idle[0] - before[0]) / count:.1f} KiB each")
        body = json.dumps({"prompt": "Once", "stream": True, "max_tokens": 200, "ignore_eos": True})
        request = (f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        began = time.monotonic()
        for each in sockets:
            each.sendall(request)
        refused = 0
        for each in sockets:
            refused += not each.recv(12).endswith(b" 200")
        took = time.monotonic() - began
        streams = settled(server.pid)
        print(f"{count} streams:     {streams[0] / 1024:7.1f} MiB, {streams[1]} threads, "
              f"{(streams[0] - before[0]) / count:.1f} KiB each; all began within {took:.2f} s, "
              f"{refused} refused")
        for each in sockets:
            each.close()
        gone = settled(server.pid)
        print(f"all gone:         {gone[0] / 1024:7.1f} MiB, {gone[1]} threads")
    finally:
        server.terminate()
        server.wait(timeout=60)
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
