"""schema_answers.py URL [SEED [SECONDS]]: draws schemas at random and has the server answer to them;
python-jsonschema judges each answer that ended by itself. A schema may be refused (400) with a
reason; what is taken must be enforced. Prints the seed, and each answer that is not valid with its
schema. Run by with_package.sh and with_server.sh; of more seconds by hand."""

import json
import random
import sys
import time
import urllib.error
import urllib.request

import jsonschema

PATTERNS = ["^[a-c]{2}$", "\\d", "^x|y$", "^[A-Z]:\\\\[a-c]{2}$", "[^a-z]$", "^\"", "\\S"]
NAMES = ["a", "b", "a/b", "é\"", "long name"]
LITERALS = [None, True, 0, 7, 19.99, -2.5, "a", "x\"\\\n", [1, "a"], {"a": 1}]
FORMATS = ["date", "time", "email", "uuid", "ipv4", "password"]


class Drawer:
    """Schemas that mean something more often than not, and stand beside each other as they like."""

    def __init__(self, random_):
        self.random = random_

    def maybe(self, schema, name, value, chance=0.3):
        if self.random.random() < chance:
            schema[name] = value()

    def integer(self, least, most):
        return lambda: self.random.randint(least, most)

    def number(self):
        return self.random.choice([0, 1, -3, 2.5, 10, 0.01, -0.75, 100])

    def string(self, schema, _):
        self.maybe(schema, "minLength", self.integer(0, 3))
        self.maybe(schema, "maxLength", self.integer(1, 8))
        self.maybe(schema, "pattern", lambda: self.random.choice(PATTERNS))
        self.maybe(schema, "format", lambda: self.random.choice(FORMATS), 0.15)

    def numbers(self, schema, _):
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            self.maybe(schema, name, self.number, 0.25)
        self.maybe(schema, "multipleOf", lambda: self.random.choice([1, 2, 5, 7, 0.5]), 0.15)

    def array(self, schema, depth):
        self.maybe(schema, "items", lambda: self.schema(depth - 1), 0.7)
        self.maybe(schema, "prefixItems", lambda: [self.schema(depth - 1)], 0.2)
        self.maybe(schema, "minItems", self.integer(0, 2))
        self.maybe(schema, "maxItems", self.integer(0, 3), 0.7)

    def object(self, schema, depth):
        names = self.random.sample(NAMES, self.random.randint(0, 3))
        self.maybe(schema, "properties", lambda: {n: self.schema(depth - 1) for n in names}, 0.8)
        self.maybe(schema, "required", lambda: self.random.sample(NAMES, self.random.randint(0, 2)))
        self.maybe(schema, "additionalProperties",
                   lambda: self.random.choice([False, True, self.schema(depth - 1)]))
        self.maybe(schema, "patternProperties", lambda: {"^[a-c]+$": self.schema(depth - 1)}, 0.15)
        self.maybe(schema, "propertyNames", lambda: {"maxLength": 5}, 0.1)
        self.maybe(schema, "minProperties", self.integer(0, 2), 0.15)
        self.maybe(schema, "maxProperties", self.integer(1, 3))
        self.maybe(schema, "unevaluatedProperties", lambda: False, 0.1)

    def schema(self, depth):
        if self.random.random() < 0.05:
            return True
        schema = {}
        kinds = {"string": self.string, "number": self.numbers, "integer": self.numbers,
                 "array": self.array, "object": self.object}
        simple = ["null", "boolean", "string", "number", "integer"]
        kind = self.random.choice(simple + (["array", "object", "object"] if depth > 0 else []))
        if self.random.random() < 0.8:
            schema["type"] = [kind, "null"] if self.random.random() < 0.15 else kind
        if kind in kinds:
            kinds[kind](schema, depth)
        self.maybe(schema, "enum", lambda: self.random.sample(LITERALS, 4), 0.08)
        self.maybe(schema, "const", lambda: self.random.choice(LITERALS), 0.03)
        if depth > 0:
            for name in ("anyOf", "oneOf", "allOf"):
                self.maybe(schema, name, lambda: [self.schema(depth - 1) for _ in range(2)], 0.08)
            self.maybe(schema, "$ref", lambda: "#/$defs/x~1y", 0.08)
        return schema

    def document(self):
        schema = self.schema(3)
        if not isinstance(schema, dict):
            schema = {}
        schema["$defs"] = {"x/y": self.schema(1)}
        return schema


def ask(url, schema, seed):
    body = {"prompt": "x", "max_tokens": 200, "temperature": 1.2, "seed": seed,
            "structured_outputs": {"json": schema}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["choices"][0], None
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        return None, json.load(error)["error"]["message"]


def main():
    url = sys.argv[1].rstrip("/")
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**9)
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 4
    print(f"seed {seed}")
    drawer = Drawer(random.Random(seed))
    end = time.monotonic() + seconds
    taken = refused = wrong = 0
    while time.monotonic() < end:
        schema = drawer.document()
        choice, reason = ask(url, schema, taken)
        if choice is None:
            refused += 1
            if not reason:
                wrong += 1
                print(f"refused without a reason: {json.dumps(schema)}")
            continue
        if choice["finish_reason"] != "stop":
            continue
        taken += 1
        try:
            jsonschema.Draft202012Validator(schema).validate(json.loads(choice["text"]))
        except (ValueError, jsonschema.ValidationError) as error:
            wrong += 1
            print(f"{str(error).splitlines()[0]}\n  {json.dumps(schema)}\n  {choice['text']!r}")
    print(f"{taken} answers judged, {refused} schemas refused, {wrong} wrong")
    return 1 if wrong or taken == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
