"""What the clients' scripts share: calls are functions, and how each went is a line of JSON.

A script of a client is run by run.py with the client's own Python, as `python NAME.py URL`, URL being
a server of the demo model like http://127.0.0.1:8000.
"""

import json
import sys
import traceback

MODEL = "demo-llama"
MESSAGES = [{"role": "user", "content": "What does numpy.mean do?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Lima"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}

_CALLS = []


class Skipped(Exception):
    """The server has not got what the call needs; says what."""


def call(name):
    def remember(function):
        _CALLS.append((name, function))
        return function

    return remember


def equal(found, expected, what):
    assert found == expected, f"{what}: {found!r} is not {expected!r}"


def raises(kind, function, words=""):
    try:
        function()
    except kind as raised:
        assert words in str(raised), f"{raised} does not say {words!r}"
        return raised
    raise AssertionError(f"no {kind.__name__}")


def weather_of(arguments):
    """Checks what an enforced call of get_weather says."""
    said = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert said.get("city") in ("Oslo", "Lima"), f"arguments {said!r}"


def _needs_grammar(raised):
    said = str(raised).replace("\\'", "'")  # some clients print the message a second time
    return any(f"'{field}' is not supported yet" in said
               for field in ("tool_choice", "response_format"))


def main():
    url = sys.argv[1]
    for name, function in _CALLS:
        result, why = "ok", ""
        try:
            function(url)
        except Skipped as skipped:
            result, why = "skipped", str(skipped)
        except Exception as raised:  # reported as the call's failure
            if _needs_grammar(raised):
                result, why = "skipped", "the server enforces no grammars"
            else:
                result, why = "failed", f"{type(raised).__name__}: {raised}"
                print(traceback.format_exc(), file=sys.stderr)
        print(json.dumps({"call": name, "result": result, "why": why[:300]}), flush=True)
