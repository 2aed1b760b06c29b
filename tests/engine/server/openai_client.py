#!/usr/bin/env python3
"""Drives a running `tandem serve` with the official openai package.

    python openai_client.py BASE_URL [--api-key KEY] [--adapter-root DIR]

BASE_URL is like http://127.0.0.1:8000/v1. The server serves tests/data/demo-llama with its four
adapters (--adapters tests/data/demo-llama/adapters). With --adapter-root, which the server must
have as well, adapters are also loaded and unloaded. Needs `pip install openai`; exits with 0 when
all checks pass, else with 1 after naming those that failed.
"""

import argparse
import json
import sys
import threading
import traceback
import urllib.request

import openai

ADAPTERS = ["cheader", "docstring", "license", "python"]
PROMPT = "def main():"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Context:
    def __init__(self, url, key, root):
        self.url = url
        self.key = key
        self.root = root
        self.client = openai.OpenAI(base_url=url, api_key=key or "none", max_retries=0, timeout=120)
        models = [model.id for model in self.client.models.list()]
        self.base = next(name for name in models if name not in ADAPTERS)

    def greedy(self, model, prompt=PROMPT, **options):
        options = {"max_tokens": 16, "temperature": 0} | options
        return self.client.completions.create(model=model, prompt=prompt, **options)

    def post(self, path, body):
        request = urllib.request.Request(
            self.url.removesuffix("/v1") + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.read().decode()


def equal(found, expected, what):
    assert found == expected, f"{what}: {found!r} is not {expected!r}"


def fails(error, call, code=None):
    try:
        call()
    except error as raised:
        if code is not None:
            equal(raised.code, code, "error code")
        assert raised.body["message"], "an error without a message"
        return raised
    raise AssertionError(f"no {error.__name__}")


@check
def models_are_listed(c):
    models = {model.id: model for model in c.client.models.list()}
    equal(set(models), {c.base, *ADAPTERS}, "models")
    assert models[c.base].parent is None
    assert models[c.base].max_model_len > 0
    for name in ADAPTERS:
        equal(models[name].parent, c.base, "parent")
        equal(c.client.models.retrieve(name).root, models[name].root, "root")


@check
def completions_answer(c):
    answer = c.greedy(c.base)
    equal(answer.object, "text_completion", "object")
    equal(answer.model, c.base, "model")
    assert answer.choices[0].text
    assert answer.choices[0].finish_reason in ("stop", "length")
    usage = answer.usage
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total tokens")
    assert usage.prompt_tokens_details.cached_tokens >= 0
    equal(c.greedy(c.base).choices[0].text, answer.choices[0].text, "the same again")


@check
def adapters_answer_differently(c):
    texts = {c.greedy(model, max_tokens=32).choices[0].text for model in [c.base, *ADAPTERS]}
    assert len(texts) >= 3, f"base and four adapters say only {len(texts)} different things"


@check
def several_prompts_and_choices_are_numbered(c):
    alone = [c.greedy(c.base, prompt).choices[0].text for prompt in ("The", "import")]
    together = c.greedy(c.base, ["The", "import"], n=2)
    equal([choice.index for choice in together.choices], [0, 1, 2, 3], "indices")
    equal([choice.text for choice in together.choices],
          [alone[0], alone[0], alone[1], alone[1]], "texts")


@check
def streams_say_the_same(c):
    whole = c.greedy("python", max_tokens=24)
    pieces, usage, reasons = [], None, []
    for chunk in c.greedy("python", max_tokens=24, stream=True,
                          stream_options={"include_usage": True}):
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            pieces.append(choice.text)
            reasons.append(choice.finish_reason)
    equal("".join(pieces), whole.choices[0].text, "streamed text")
    equal(usage.completion_tokens, whole.usage.completion_tokens, "streamed usage")
    equal([reason for reason in reasons if reason], [whole.choices[0].finish_reason], "reasons")


@check
def seeds_repeat(c):
    def drawn(seed):
        return c.greedy(c.base, temperature=1.0, seed=seed, max_tokens=24).choices[0].text

    equal(drawn(7), drawn(7), "seed 7")
    assert len({drawn(seed) for seed in range(6)}) > 1, "six seeds say the same"


@check
def stops_stop(c):
    text = c.greedy(c.base, max_tokens=24).choices[0].text
    stop = text[len(text) // 2:][:3]
    answer = c.greedy(c.base, max_tokens=24, stop=[stop])
    equal(answer.choices[0].text, text[: text.index(stop)], "text before the stop")
    equal(answer.choices[0].finish_reason, "stop", "reason")


@check
def logprobs_are_told(c):
    answer = c.greedy(c.base, max_tokens=4, logprobs=3)
    told = answer.choices[0].logprobs
    equal(len(told.tokens), 4, "tokens")
    equal("".join(told.tokens), answer.choices[0].text, "tokens joined")
    for logprob, top in zip(told.token_logprobs, told.top_logprobs):
        assert logprob <= 0
        assert 3 <= len(top) <= 4
        assert abs(logprob - max(top.values())) < 1e-5, "greedy is the most likely"
    scored = c.greedy(c.base, max_tokens=1, echo=True, logprobs=0)
    assert scored.choices[0].text.startswith(PROMPT)
    assert scored.choices[0].logprobs.token_logprobs[0] is None


@check
def chats_answer(c):
    messages = [{"role": "user", "content": "Write a header."}]
    options = {"model": c.base, "messages": messages, "max_tokens": 16, "temperature": 0}
    try:
        answer = c.client.chat.completions.create(**options, logprobs=True, top_logprobs=2)
    except openai.BadRequestError as raised:
        equal(raised.code, "no_chat_template", "error code")
        return
    equal(answer.object, "chat.completion", "object")
    equal(answer.choices[0].message.role, "assistant", "role")
    equal(len(answer.choices[0].logprobs.content), answer.usage.completion_tokens, "logprobs")
    equal(len(answer.choices[0].logprobs.content[0].top_logprobs), 2, "top logprobs")
    pieces = []
    for chunk in c.client.chat.completions.create(**options, stream=True):
        if not pieces:
            equal(chunk.choices[0].delta.role, "assistant", "role")
        pieces.append(chunk.choices[0].delta.content or "")
    equal("".join(pieces), answer.choices[0].message.content, "streamed chat")
    parts = [{"role": "user", "content": [{"type": "text", "text": "Write a header."}]}]
    again = c.client.chat.completions.create(**(options | {"messages": parts}))
    equal(again.choices[0].message.content, answer.choices[0].message.content, "content as parts")


@check
def many_mixed_requests_at_once_change_nothing(c):
    models = [c.base, *ADAPTERS]
    alone = {model: c.greedy(model).choices[0].text for model in models}
    wrong = []

    def ask(model):
        try:
            text = "".join(chunk.choices[0].text for chunk in c.greedy(model, stream=True))
            if text != alone[model]:
                wrong.append(f"{model}: {text!r} is not {alone[model]!r}")
        except Exception as raised:  # reported as the check's failure
            wrong.append(f"{model}: {raised!r}")

    threads = [threading.Thread(target=ask, args=(models[i % 5],)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, "; ".join(wrong[:3])


@check
def errors_are_openais(c):
    create = c.client.completions.create
    fails(openai.NotFoundError, lambda: create(model="nobody", prompt="x"), "model_not_found")
    fails(openai.NotFoundError, lambda: c.client.models.retrieve("nobody"), "model_not_found")
    raised = fails(openai.BadRequestError,
                   lambda: create(model=c.base, prompt="x", temperature=9))
    equal(raised.param, "temperature", "param")
    length = c.client.models.retrieve(c.base).max_model_len
    fails(openai.BadRequestError,
          lambda: create(model=c.base, prompt=[1] * (length + 1)), "context_length_exceeded")
    if c.key:
        stranger = openai.OpenAI(base_url=c.url, api_key="wrong", max_retries=0)
        fails(openai.AuthenticationError, stranger.models.list, "invalid_api_key")


@check
def adapters_come_and_go(c):
    if not c.root:
        return
    body = {"lora_name": "second-python", "lora_path": f"{c.root}/python"}
    equal(c.post("/v1/load_lora_adapter", body),
          "Success: LoRA adapter 'second-python' added successfully.", "load")
    equal(c.greedy("second-python").choices[0].text, c.greedy("python").choices[0].text, "text")
    c.post("/v1/unload_lora_adapter", {"lora_name": "second-python"})
    fails(openai.NotFoundError, lambda: c.greedy("second-python"), "model_not_found")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base_url")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--adapter-root", default="")
    arguments = parser.parse_args()
    context = Context(arguments.base_url, arguments.api_key, arguments.adapter_root)
    failed = []
    for function in CHECKS:
        try:
            function(context)
            print(f"ok      {function.__name__}", flush=True)
        except Exception:  # every failure is reported
            failed.append(function.__name__)
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} of {len(CHECKS)} checks failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
