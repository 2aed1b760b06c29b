#!/usr/bin/env python3
"""Makes requests.json: chat requests as clients send them and the prompts that transformers makes of them.

    python3 -m venv venv && venv/bin/pip install transformers jinja2 && venv/bin/python make_requests.py

A case has a template, the bytes of a request, and "text" or "error": true. Made with transformers 5.23. The
templates are those of make.py and some more, written for this test in the manner of published ones. Three things
happen to a request before transformers sees it, as in other servers: arguments of tool calls that are JSON text are
parsed, text parts are joined by line feeds for a template that does not loop over contents, and
continue_final_message turns the generation prompt off.
"""
import copy
import json
import pathlib
import sys

from transformers import AutoTokenizer

import make

HERE = pathlib.Path(__file__).parent

# Has tool instructions in the system message, calls in tags, content parts, and all loop controls.
HERMES = """{{- bos_token }}
{%- macro describe(tool) %}
{%- set f = tool.function if tool.function is defined else tool %}
{{- '{"type": "function", "function": ' + (f | tojson) + '}' }}
{%- endmacro %}
{%- if tools is not none and tools | length > 0 %}
{{- '<|im_start|>system\\nTools: <tools>' }}
{%- for tool in tools %}{{ describe(tool) }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}
{{- '</tools><|im_end|>\\n' }}
{%- endif %}
{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}
{%- for message in messages %}
    {%- if message.role == 'developer' %}{% continue %}{% endif %}
    {%- if message.role == 'end' %}{% break %}{% endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}{{ message.content }}{% elif message.content is iterable and message.content is not mapping %}
        {%- for part in message.content %}{{ '[' ~ part.type ~ ':' ~ part.text ~ ']' }}{% endfor %}
    {%- endif %}
    {%- if message.tool_calls is defined and message.tool_calls is iterable %}
        {%- for call in message.tool_calls %}
            {{- '\\n<tool_call>\\n' + call.function | tojson(indent=2) + '\\n</tool_call>' }}
            {%- for key, value in call.function.arguments.items() %}{{ ' ' ~ key ~ '=' ~ value }}{% endfor %}
        {%- endfor %}
    {%- endif %}
    {%- if message.reasoning_content %}{{ '<r>' + message.reasoning_content + '</r>' }}{% endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if documents %}{% for d in documents %}{{ d | tojson }}{% endfor %}{% endif %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}
{{- users | length }}"""
# Prints all of its input.
MIRROR = """{# content, which transformers looks for #}{{ messages | tojson }}
{{ tools | tojson(indent=4) if tools is defined else 'undefined' }} {{ documents }}
{{ bos_token }}{{ eos_token }} {{ add_generation_prompt }} {{ extra | default('none') }} {{ date_string | default(strftime_now('%Y') | length) }}
"""
PLAIN = """{% for m in messages %}{{ m.role }}: {{ m.content }}{% if not loop.last %}
{% endif %}{% endfor %}"""
TRIMMED = """{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}"""

TEMPLATES = [make.CHATML, make.HEADERS, make.REASONING, make.TURNS, make.MISTRAL, HERMES, MIRROR, PLAIN, TRIMMED]
LOOPS_OVER_CONTENT = {HERMES}

WEATHER = '{"type": "function", "function": {"name": "weather", "description": "Wetter \\u2013 \\"now\\"", ' \
          '"parameters": {"type": "object", "required": ["city"], "properties": {"zone": {"type": "integer", ' \
          '"default": 1.0}, "city": {"type": "string", "enum": ["K\\u00f6ln", "a<b"]}}}}}'
BARE = '{"parameters": {"type": "object", "properties": {}}, "name": "bare"}'
USER = '{"role": "user", "content": " What is the weather? "}'
CALLS = '{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "id": "abc123", "function": ' \
        '{"name": "weather", "arguments": %s}}]}'
AS_TEXT = json.dumps('{"zone": 2, "city": "Köln", "deep": {"b": [1, 2.50, null, true], "a": ""}}')
AS_OBJECT = '{"zone": 2, "city": "Köln", "deep": {"b": [1, 2.50, null, true], "a": ""}}'
RESULT = '{"role": "tool", "tool_call_id": "abc123", "name": "weather", "content": "{\\"t\\": 20}"}'
PARTS = '{"role": "user", "content": [{"type": "text", "text": "one"}, {"text": "two", "type": "text"}]}'
ANSWER = '{"content": "  It is 20. ", "role": "assistant"}'
REASONED = '{"role": "assistant", "reasoning_content": "so", "content": "It is."}'

CHATS = {
    "user": f"[{USER}]",
    "system": f'[{{"role": "system", "content": "Be brief.\\n"}}, {USER}, {ANSWER}, {USER}]',
    "calls in text": f"[{USER}, {CALLS % AS_TEXT}, {RESULT}]",
    "calls in objects": f"[{USER}, {CALLS % AS_OBJECT}, {RESULT}, {ANSWER}, {USER}]",
    "no arguments": f'[{USER}, {CALLS % json.dumps("")}]',
    "no content": f'[{USER}, {{"tool_calls": null, "role": "assistant"}}, {USER}]',
    "parts": f"[{PARTS}, {ANSWER}, {PARTS}]",
    "reasoning": f"[{USER}, {REASONED}]",
    "reasoning, older": '[%s, %s, %s]' % (USER, REASONED.replace("_content", "", 1), USER),
    "members": '[{"zeta": 1, "role": "user", "content": "x", "name": "n", "alpha": {"z": 1, "a": [1e2, -0.5, 1234567890123456789]}}]',
}
EXTRAS = {
    "": "",
    "tools": f', "tools": [{WEATHER}, {WEATHER}]',
    "thinking off": ', "chat_template_kwargs": {"enable_thinking": false, "extra": {"b": 1, "a": [null]}}',
    "no prompt": ', "add_generation_prompt": false',
    "documents": ', "documents": [{"title": "t", "text": "u"}], "chat_template_kwargs": {"date_string": "26 Jul 2024"}',
    "bare": f', "tools": [{BARE}]',
}
CONTINUED = {
    "answer": f"[{USER}, {ANSWER}]",
    "space": f'[{USER}, {{"role": "assistant", "content": "It is "}}]',
    "parts": f'[{USER}, {{"role": "assistant", "content": [{{"type": "text", "text": "one "}}]}}]',
    "null": f'[{USER}, {{"role": "assistant", "content": null}}]',
    "user": f"[{USER}]",
    "twice": f'[{USER}, {{"role": "assistant", "content": "w"}}, {{"role": "assistant", "content": "w"}}]',
}


def given(request, template):
    """The messages as transformers gets them."""
    messages = copy.deepcopy(request["messages"])
    for message in messages:
        for call in message.get("tool_calls") or []:
            arguments = call["function"].get("arguments")
            if isinstance(arguments, str):
                call["function"]["arguments"] = json.loads(arguments) if arguments else {}
        if isinstance(message.get("content"), list) and template not in LOOPS_OVER_CONTENT:
            message["content"] = "\n".join(part["text"] for part in message["content"])
    return messages


def main():
    tokenizer = AutoTokenizer.from_pretrained(HERE.parent / "demo-llama")
    requests = [f'{{"messages": {chat}{extra}}}' for chat in CHATS.values() for extra in EXTRAS.values()]
    requests += [f'{{"messages": {chat}, "continue_final_message": true}}' for chat in CONTINUED.values()]
    cases = []
    for number, template in enumerate(TEMPLATES):
        for which, text in enumerate(requests):
            request = json.loads(text)
            goes_on = request.get("continue_final_message", False)
            case = {"template": number, "request": which}
            try:
                case["text"] = tokenizer.apply_chat_template(
                    given(request, template), tools=request.get("tools"), documents=request.get("documents"),
                    chat_template=template, tokenize=False, continue_final_message=goes_on,
                    add_generation_prompt=request.get("add_generation_prompt", not goes_on),
                    **request.get("chat_template_kwargs", {}))
            except Exception as e:
                case["error"] = True
                print(number, which, type(e).__name__, str(e)[:80], file=sys.stderr)
            cases.append(case)
    made = {"templates": TEMPLATES, "requests": requests, "cases": cases}
    (HERE / "requests.json").write_text(json.dumps(made, indent=0, ensure_ascii=False) + "\n")
    print(len(cases), "cases,", sum("error" in c for c in cases), "errors")


if __name__ == "__main__":
    main()
