"""otlp_schema.py TANDEM: what `tandem serve --otlp-endpoint` sends is OTLP, by OpenTelemetry's own
schema (opentelemetry-proto): a collector here takes the spans of a request, and protobuf reads them
strictly, so that a member of another name or type is a fault. Run by with_package.sh."""

import base64
import http.server
import json
import queue
import subprocess
import sys
import threading
import time
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PATIENCE_S = 30


class Collector(http.server.BaseHTTPRequestHandler):
    sent = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.sent.put((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def with_bytes(value):
    """OTLP's JSON has ids in hexadecimal, against the rule of protobuf's JSON, which has bytes in base64."""
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: base64.b64encode(bytes.fromhex(each)).decode() if name in ("traceId", "spanId", "parentSpanId")
            else with_bytes(each) for name, each in value.items()}


def start_server(tandem, endpoint):
    process = subprocess.Popen(
        [tandem, "serve", "--model", "tests/data/demo-llama", "--adapters", "tests/data/demo-llama/adapters",
         "--port", "0", "--no-pin", "--device", "host", "--otlp-endpoint", endpoint], stderr=subprocess.PIPE, text=True)
    url = ""
    for line in process.stderr:
        if " listening on " in line:
            url = line.split(" listening on ")[1].split(";")[0]
        if " ready: " in line:
            break
    # Reads the log, so that it cannot fill the pipe.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process, url


def ask(url):
    body = json.dumps({"model": "python", "prompt": "import os", "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {
        "Content-Type": "application/json", "traceparent": f"00-{TRACE}-{CALLER}-01"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        answer.read()


def spans_of_the_request():
    """Until the call itself has come; each message is read by the schema."""
    spans = {}
    end = time.monotonic() + PATIENCE_S
    while "/v1/completions" not in spans:
        path, content_type, body = Collector.sent.get(timeout=max(0.1, end - time.monotonic()))
        assert path == "/v1/traces" and content_type == "application/json", (path, content_type)
        message = json_format.ParseDict(with_bytes(json.loads(body)), ExportTraceServiceRequest())
        for resource in message.resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert named["service.name"] == "tandem serve" and named["service.instance.id"], named
            for scope in resource.scope_spans:
                spans |= {span.name: span for span in scope.spans}
    return spans


def check(spans):
    call = spans["/v1/completions"]
    assert call.kind == Span.SPAN_KIND_SERVER, call
    assert call.parent_span_id.hex() == CALLER, call
    now = time.time_ns()
    for name in ("/v1/completions", "queue", "prefill", "decode"):
        span = spans[name]
        assert span.trace_id.hex() == TRACE and len(span.span_id) == 8, span
        assert now - 120 * 10**9 < span.start_time_unix_nano <= span.end_time_unix_nano <= now, span
        if span is not call:
            assert span.parent_span_id == call.span_id, span
    attributes = {each.key: each.value for each in call.attributes}
    assert any(value.HasField("int_value") for value in attributes.values()), attributes
    assert any(value.string_value == "python" for value in attributes.values()), attributes


def main():
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    process, url = start_server(sys.argv[1], f"http://127.0.0.1:{collector.server_port}")
    try:
        ask(url)
        spans = spans_of_the_request()
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
    check(spans)
    print(f"{len(spans)} spans are what OpenTelemetry's schema says: {', '.join(spans)}")


main()
