"""The requests of vLLM's `bench serve`, and how it reads their answers; vLLM itself, some GB, is not
installed. Once per endpoint: streams with usage, read line by line, from several clients at once."""

import concurrent.futures
import json
import urllib.request

from checks import MODEL, call, equal, main


def stream(url, path, body):
    """Text and usage of a stream, by the rules of the benchmark."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer none"})
    text, usage = "", None
    with urllib.request.urlopen(request, timeout=120) as response:
        for line in response:
            line = line.strip()
            if not line or line.startswith(b":"):
                continue
            data = line.decode().removeprefix("data: ")
            if data == "[DONE]":
                return text, usage
            chunk = json.loads(data)
            if chunk["choices"]:
                choice = chunk["choices"][0]
                text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            elif chunk.get("usage"):
                usage = chunk["usage"]
    raise AssertionError("the stream ended without [DONE]")


def check(url, path, body):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: stream(url, path, body), range(16)))
    for text, usage in answers:
        assert text
        equal(usage["completion_tokens"], 8, "completion tokens")


@call("openai: /v1/completions")
def completions(url):
    check(url, "/v1/completions", {
        "model": MODEL, "prompt": "This package provides", "repetition_penalty": 1.0, "max_tokens": 8,
        "temperature": 0.0, "logprobs": None, "stream": True, "ignore_eos": True,
        "stream_options": {"include_usage": True}})


@call("openai-chat: /v1/chat/completions")
def chat(url):
    check(url, "/v1/chat/completions", {
        "model": MODEL, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "max_completion_tokens": 8, "temperature": 0.0, "stream": True, "ignore_eos": True,
        "stream_options": {"include_usage": True}})


main()
