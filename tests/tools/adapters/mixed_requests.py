#!/usr/bin/env python3
"""Asks a server at random for all adapters of its base, many requests at once, and compares the
answers with those of a second server, without a prefix cache, that gets one request at a time.

  tests/tools/adapters/mixed_requests.py PROGRAM MODEL_DIR ... [--requests 2000] [--running 32]
      [--seed N] [FLAG ... of the first server, behind --]

The adapters of a base are the folders in MODEL_DIR/adapters. Requests are completions and chats of
the base, of adapters and of sets of them, with text, ids, shared prefixes, invocations of activated
LoRAs, constraints, stop strings, biases, sampling; embeddings and classes. Everything is computed in
float32. Log probabilities and numbers may differ by 0.002, and tokens where the two best are nearer
than 0.001 to each other (a near-tie, which ends the comparison of that answer). Prints the seed
(TANDEM_TEST_SEED repeats a run) and each answer that differs. Exit status: 0, or 1 if one does.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request

TOLERANCE = 2e-3
NEAR_TIE = 1e-3
SHOWN = 10  # differences of a base that are printed
WORDS = ["def f(x):", " return", " the quick", " fox", "\n", " 12", "{\"a\":", " Hello", "é", " lamp"]
CONSTRAINTS = [{"regex": "[a-z]{2,8}"}, {"choice": ["yes", "no", "perhaps"]},
               {"json": {"type": "object", "properties": {"a": {"type": "integer"}},
                         "required": ["a"], "additionalProperties": False}},
               {"regex": "(<\\|user\\|>|<\\|tool\\|>|[0-9])+"}, {"grammar": "root ::= [a-c]+ \"!\""}]


class Server:
    def __init__(self, program, model, flags):
        adapters = ["--adapters", model / "adapters"]
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, *adapters, "--port", "0", "--device", "host",
             "--dtype", "f32", "--no-pin", "--no-request-log", *flags],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "TANDEM_CLAIM_CORES": "false"})
        self.log = []

    def __enter__(self):
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"listening on http://[^:]+:(\d+)", line):
                self.url = f"http://127.0.0.1:{found[1]}"
            if " ready: " in line:
                threading.Thread(target=lambda: self.log.extend(self.process.stderr)).start()
                return self
        sys.exit(f"{''.join(self.log)}{program} serve ended with {self.process.wait()}")

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url + path, timeout=60))

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request, timeout=300))
        except urllib.error.HTTPError as error:
            return {"status": error.code, "error": json.load(error)["error"]["message"]}

    def __exit__(self, *_):
        self.process.terminate()
        if self.process.wait(timeout=60) != 0:
            sys.exit("".join(self.log) + "the server did not end in order")


class Drawer:
    """Draws requests for one base."""

    def __init__(self, server, model, random_):
        self.random = random_
        listed = server.get("/v1/models")["data"]
        self.base = next(each["id"] for each in listed if not each["parent"])
        self.writes = "error" not in server.post(
            "/v1/completions", {"model": self.base, "prompt": [1], "max_tokens": 1})
        shown = server.get("/v1/adapters")
        self.adapters = {each["name"]: each for each in shown["data"]}
        self.refused = [each["name"] for each in shown["refused"]]
        self.base_labels = "error" not in server.post(
            "/v1/classify", {"model": self.base, "input": "x"})
        self.base_tokens = self.tokens_of(model)
        self.tokens = {name: max(self.tokens_of(model / "adapters" / name), self.base_tokens)
                       for name in self.adapters}
        self.invocations = {}
        for name in self.adapters:
            config = json.loads((model / "adapters" / name / "adapter_config.json").read_text())
            if found := config.get("alora_invocation_tokens"):
                self.invocations[name] = found
        self.prefixes = [self.ids(self.base_tokens, random_.randint(20, 80)) for _ in range(4)]

    @staticmethod
    def tokens_of(folder):
        if not (folder / "tokenizer.json").exists():
            return 0
        read = json.loads((folder / "tokenizer.json").read_text())
        ids = [*read["model"]["vocab"].values(), *(each["id"] for each in read["added_tokens"])]
        return max(ids) + 1

    def ids(self, tokens, count):
        return [self.random.randrange(tokens) for _ in range(count)]

    def chance(self, of):
        return self.random.random() < of

    def model(self):
        """The fields that name the adapters, and the names."""
        names = sorted(self.adapters)
        drawn = self.random.random()
        if drawn < 0.1:
            return {"model": self.base}, []
        if drawn < 0.75 or len(names) < 2:
            name = self.random.choice(names)
            return {"model": name}, [name]
        some = self.random.sample(names, self.random.randint(2, min(3, len(names))))
        if drawn < 0.85:
            return {"model": "+".join(some)}, some
        if drawn < 0.9:
            some = some[:1]
        scales = [self.random.choice([0.5, 1, -1, 1.5, 0]) for _ in some]
        return {"model": self.base, "adapters": [{"name": name, "scale": scale}
                                                 for name, scale in zip(some, scales)]}, some

    def prompt(self, names):
        if self.chance(0.2):
            special = ["<|user|>", "<|tool|>", "<|end|>"]
            return "".join(self.random.choices(WORDS + special, k=self.random.randint(1, 12)))
        prefix = self.random.choice(self.prefixes)
        ids = prefix[:self.random.choice([0, len(prefix), self.random.randint(0, len(prefix))])]
        invoked = [self.invocations[name] for name in names if name in self.invocations]
        if not invoked or self.chance(0.1):
            invoked = list(self.invocations.values())
        if invoked and self.chance(0.8):
            ids = [*ids, *self.random.choice(invoked)]
        tokens = self.tokens[names[0]] if len(names) == 1 else self.base_tokens
        return ids + self.ids(tokens, self.random.randint(0 if ids else 1, 20))

    def options(self):
        options = {"max_tokens": self.random.randint(1, 16), "temperature": 0,
                   "seed": self.random.randrange(1 << 30)}
        if self.chance(0.15):
            options |= {"temperature": self.random.choice([0.7, 1.3]),
                        "top_p": self.random.choice([1, 0.9]), "top_k": self.random.choice([0, 20])}
        if self.chance(0.15):
            options["structured_outputs"] = self.random.choice(CONSTRAINTS)
        if self.chance(0.2):
            options["stop"] = self.random.sample(["e", "\n", "ing", " ", "<|end|>", "a"], 2)
        if self.chance(0.1):
            options["repetition_penalty"] = 1.3
        if self.chance(0.1):
            options["logit_bias"] = {str(each): self.random.choice([-100, 3, 100])
                                     for each in self.ids(self.base_tokens, 3)}
        if self.chance(0.3):
            options["ignore_eos"] = True
        if self.chance(0.2):
            options["skip_special_tokens"] = False
        return options

    def draw(self):
        names, some = self.model()
        drawn = self.random.random()
        labels = [name for name in some if self.adapters[name]["labels"]]
        if (drawn < 0.3 or not self.writes) and (self.base_labels or len(labels) == 1):
            return "/v1/classify", {**names, "input": self.prompt(some), "use_activation": False}
        if drawn < 0.1 or not self.writes:
            pooled = {"pooling_type": "mean"} if self.chance(0.3) else {}
            return "/v1/embeddings", {**names, "input": self.prompt(some), **pooled}
        if drawn < 0.25:
            text = "".join(self.random.choices(WORDS, k=3))
            messages = [{"role": "user", "content": text}]
            return "/v1/chat/completions", {**names, **self.options(), "messages": messages,
                                            "logprobs": True, "top_logprobs": 5}
        more = {"echo": True} if self.chance(0.1) else {"n": 2} if self.chance(0.1) else {}
        return "/v1/completions", {**names, **self.options(), **more, "prompt": self.prompt(some),
                                   "logprobs": 5}


def tokens_of(choice):
    """(token, log probability, the best tokens with theirs) of an answer."""
    if "message" in choice:
        content = (choice["logprobs"] or {}).get("content") or []
        return [(each["token"], each["logprob"],
                 {top["token"]: top["logprob"] for top in each["top_logprobs"]})
                for each in content]
    log = choice["logprobs"]
    return list(zip(log["tokens"], log["token_logprobs"], log["top_logprobs"]))


def is_near_tie(one, other):
    """True if the two tokens could have been chosen for each other."""
    _, logprob, best = one
    values = sorted(best.values(), reverse=True)
    if len(values) > 1 and values[0] - values[1] < NEAR_TIE:
        return True
    return abs(best.get(other[0], -9e9) - logprob) < NEAR_TIE


class Comparison:
    def __init__(self):
        self.near_ties = self.errors = 0
        self.worst = 0.0

    def numbers(self, got, expected):
        if (got is None) != (expected is None):
            return f"{got}, not {expected}"
        if got is None:
            return ""
        distance = abs(got - expected)
        if not distance <= TOLERANCE:
            return f"{got}, not {expected}"
        self.worst = max(self.worst, distance)
        return ""

    def choices(self, got, expected):
        mine, theirs = tokens_of(got), tokens_of(expected)
        for at, (one, other) in enumerate(zip(mine, theirs)):
            if one[0] != other[0]:
                if is_near_tie(other, one):
                    self.near_ties += 1
                    return ""
                return f"token {at} is {one}, not {other}"
            if why := self.numbers(one[1], other[1]):
                return f"log probability {at} is {why}"
        for field in ("finish_reason", "text", "message", "stop_reason"):
            if got.get(field) != expected.get(field):
                return f"{field} is {got.get(field)!r}, not {expected.get(field)!r}"
        return "" if len(mine) == len(theirs) else f"{len(mine)} tokens, not {len(theirs)}"

    def difference(self, got, expected):
        if "error" in got or "error" in expected:
            self.errors += 1
            return "" if got == expected else f"{got}, not {expected}"
        if "choices" in got:
            pairs = zip(got["choices"], expected["choices"], strict=True)
            return next((why for pair in pairs if (why := self.choices(*pair))), "")
        field = "embedding" if "embedding" in got["data"][0] else "probs"
        for mine, theirs in zip(got["data"], expected["data"], strict=True):
            for pair in zip(mine[field], theirs[field], strict=True):
                if why := self.numbers(*pair):
                    return f"{field}: {why}"
        return ""


def compare(options, model):
    """Returns how many answers differ."""
    random_ = random.Random(f"{options.seed} {model.name}")
    alone = ["--no-prefix-cache", "--cpu-workers", "0"]
    servers = [Server(options.program, model, flags) for flags in (options.flags, alone)]
    with servers[0] as server, servers[1] as single:
        drawer = Drawer(server, model, random_)
        requests = [drawer.draw() for _ in range(options.requests)]
        with concurrent.futures.ThreadPoolExecutor(options.running + 1) as threads:
            expected = threads.submit(lambda: [single.post(*each) for each in requests])
            answers = list(threads.map(lambda each: server.post(*each), requests))
            expected = expected.result()
    comparison, different = Comparison(), 0
    for request, got, wanted in zip(requests, answers, expected):
        if why := comparison.difference(got, wanted):
            different += 1
            if different <= SHOWN:
                print(f"{model.name}: {request[0]} {json.dumps(request[1])}: {why}")
    refused = f" (refused: {', '.join(drawer.refused)})" if drawer.refused else ""
    print(f"{model.name}: {len(drawer.adapters)} adapters{refused}, {different} of {len(requests)} answers "
          f"differ, {comparison.near_ties} near-ties, {comparison.errors} errors, numbers differ "
          f"by {comparison.worst:.2g} at most", flush=True)
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--running", type=int, default=32)
    parser.add_argument("--seed", default=os.environ.get("TANDEM_TEST_SEED"))
    before, _, flags = " ".join(["\0".join(sys.argv[1:])]).partition("\0--\0")
    options = parser.parse_args(before.split("\0"))
    options.flags = flags.split("\0") if flags else []
    options.seed = options.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"TANDEM_TEST_SEED={options.seed}", flush=True)
    sys.exit(1 if sum([compare(options, model) for model in options.models]) else 0)


if __name__ == "__main__":
    main()
