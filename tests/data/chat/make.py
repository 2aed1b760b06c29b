#!/usr/bin/env python3
"""Makes cases.json: templates and what Jinja renders from them, in the environment that transformers
gives to chat templates.

    python3 -m venv venv && venv/bin/pip install jinja2 && venv/bin/python make.py

A case has a template, variables, and either "text" or "error" (the message, if the template raised it
itself; true otherwise). Made with Jinja 3.1.6. The templates are written for this test, in the style of
published ones.
"""
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(lineno)

    def _pass(self, caller):
        return caller()


class Raised(Exception):
    pass


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


USER = {"role": "user", "content": "Hi there!"}
CHAT = [{"role": "system", "content": "  Be brief.\n"}, USER,
        {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "2 < 3 & 'x'?"}]
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of \"a\" city \u2013 now",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Where"},
        "unit": {"type": "string", "enum": ["c", "f"]},
        "days": {"type": "array", "items": {"type": "integer"}, "default": 1.5}}}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": [1, 2], "x": None, "y": True}}}]}
ANSWER = {"role": "tool", "content": "{\"t\": 20}", "tool_call_id": "call_1", "name": "get_weather"}
REASON = {"role": "assistant", "content": "<think>\nfirst this\n</think>\n\nThen that."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"},
                                     {"type": "text", "text": "closely"}]}

# Complete templates in the style of each family.
CHATML = """{% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' }}
{% endfor %}
{%- if add_generation_prompt %}
    {{- '\\n<|im_start|>assistant\\n' }}
{%- endif %}
"""
INST = """{%- if messages[0]['role'] == 'system' -%}
    {%- set system = messages[0]['content'] -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{{- bos_token -}}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('roles must alternate: user, assistant, ...') -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {%- if loop.first and system is defined -%}
            {{- '[INST] <<SYS>>\\n' ~ system.strip() ~ '\\n<</SYS>>\\n\\n' ~ message.content ~ ' [/INST]' -}}
        {%- else -%}
            {{- '[INST] ' + message['content'] + ' [/INST]' -}}
        {%- endif -%}
    {%- else -%}
        {{- ' ' + message.content | trim + ' ' + eos_token -}}
    {%- endif -%}
{%- endfor -%}
"""
HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}{{- "Tools: yes\\n" }}{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("no first user message") }}
    {%- endif %}
    {{- '<|head|>user<|/head|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|head|>ipython<|/head|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""
REASONING = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
TURNS = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<turn>' + role + '
' + message['content'] | trim + '</turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<turn>model
'}}{% endif %}"""
MISTRAL = """{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = messages | selectattr("role", "equalto", "user") | list %}
{%- for message in messages | rejectattr("role", "equalto", "tool") | rejectattr("role", "equalto", "tool_results") | selectattr("tool_calls", "undefined") %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}{{- raise_exception("alternate!") }}{%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- elif message["role"] == "tool_calls" or message.tool_calls is defined %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 6 %}{{- raise_exception("bad id") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}{%- set content = message.content.content %}{%- else %}{%- set content = message.content %}{%- endif %}
        {{- '[RESULTS] {"content": ' + content|string + ", " }}
        {{- '"id": "' + message.tool_call_id + '"}[/RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""
SCHEMA = """{%- macro type_of(spec, depth=0) -%}
    {%- set map = {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool'} -%}
    {%- if spec.type in map -%}{{- map[spec.type] -}}
    {%- elif spec.type == 'array' -%}list[{{ type_of(spec['items'], depth + 1) }}]
    {%- elif spec.type == 'object' -%}{
        {%- for name, sub in spec.properties|dictsort %}{{ name }}{{ '' if name in spec.required|default([]) else '?' }}: {{ type_of(sub, depth=depth + 1) }}{{ ', ' if not loop.last }}{% endfor -%}
        }
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{% for tool in tools %}{{ tool.function.name }}({{ type_of(tool.function.parameters) }}) # {{ tool.function.description }}
{% endfor %}"""

M = {"messages": CHAT, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
TOOLS = dict(M, messages=[USER, CALL, ANSWER, {"role": "assistant", "content": "20."}, USER], tools=[TOOL])
FULL = []
for chat in ([USER], CHAT, CHAT[1:], [USER, REASON], [USER, REASON, USER], TOOLS["messages"], [ANSWER, ANSWER], []):
    for prompt in (True, False):
        for extra in ({}, {"tools": [TOOL, TOOL]}, {"enable_thinking": False}):
            FULL.append(dict(M, messages=chat, add_generation_prompt=prompt, **extra))

# Templates with one feature each, and their variables.
V = {"a": 1, "b": 2.5, "s": "Hello World", "e": "", "n": None, "t": True, "l": [3, 1, 2], "d": {"x": 1, "y": [1, 2], "items": 5},
     "u": "h\u00e9llo \u4e16\u754c \U0001f600", "words": ["b", "A", "c", "a"], "ms": CHAT, "tools": [TOOL],
     "p": [{"n": "x", "v": 1}, {"n": "y", "v": 3}, {"n": "z"}], "html": "<a href='x'>\"&\"</a>", "nested": {"k": {"z": [{"q": 7}]}},
     "lines": "one\n  two\n\nthree\n", "f": 0.1, "big": 1e22, "small": 1e-7, "int_like": 3.0}
SMALL = """
x{{ a }}y|{{a+1}}|{{ -a }}|{{ +a }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7 / 2 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}
{{ 1 + 2 * 3 - 4 }}|{{ (1 + 2) * 3 }}|{{ 2 ** 3 ** 2 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 1e3 }}|{{ 1_000 }}|{{ 1.5e-3 }}
{{ b }}|{{ f + 0.2 }}|{{ big }}|{{ small }}|{{ int_like }}|{{ 1/3 }}|{{ 100.0 }}|{{ 1e16 }}|{{ 123456789012345.0 }}|{{ 0.0001 }}|{{ 0.00001 }}
{{ n }}|{{ t }}|{{ false }}|{{ none }}|{{ True }}|{{ None }}|{{ true + 1 }}|{{ [1, 'a', none, true, 1.0] }}|{{ {'a': 1, 'b': [2]} }}|{{ (1,) }}|{{ (1, 2) }}|{{ () }}
{{ "it's" }}|{{ ["it's", 'q"q', 'both\\'"', 'back\\\\', 'nl\\n', '\\u00e9', '\\x07'] }}
{{ 'a' 'b' "c" }}|{{ 'x' ~ 1 ~ none ~ true ~ 2.0 }}|{{ 'tab\\there' }}|{{ '\\u4e16' }}|{{ '\\q' }}
{{ 'a' * 3 }}|{{ 3 * 'ab' }}|{{ [1] * 2 }}|{{ [1] + [2] }}|{{ (1,) + (2,) }}|{{ 'x' * 0 }}|{{ 'x' * -1 }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 1 == 1.0 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 != 2 }}|{{ true == 1 }}|{{ none == false }}|{{ 'a' == ['a'] }}|{{ (1,) == [1] }}
{{ 'ell' in s }}|{{ 'x' in d }}|{{ 1 in l }}|{{ 9 not in l }}|{{ not a }}|{{ a and 'yes' }}|{{ e or 'no' }}|{{ a and e or 'z' }}|{{ not a == 1 }}|{{ a in [1] and 2 not in [1] }}
{{ 'y' if a else 'z' }}|{{ 'y' if e else 'z' }}|{{ 'y' if e }}|{{ 1 if 0 else 2 if 0 else 3 }}
{{ missing }}|{{ missing is defined }}|{{ missing is undefined }}|{{ a is defined }}|{{ d.zz is defined }}|{{ d.zz }}|{{ missing | default('dd') }}|{{ e | default('dd') }}|{{ e | default('dd', true) }}|{{ n | d('x', boolean=true) }}
{{ missing ~ 'x' }}|{{ missing | length }}|{{ missing == none }}|{{ missing | list }}|{{ missing | upper }}|{% for x in missing %}x{% else %}none{% endfor %}
{{ s[0] }}|{{ s[-1] }}|{{ s[1:4] }}|{{ s[::-1] }}|{{ s[:-3] }}|{{ s[-3:] }}|{{ s[::2] }}|{{ s[99:] }}|{{ l[0] }}|{{ l[-1] }}|{{ l[9] }}|{{ l[1:] }}|{{ l[::-1] }}|{{ (1,2,3)[1:] }}|{{ u[1:3] }}|{{ u[-1] }}|{{ l[-2:99] }}|{{ l[5:1:-1] }}|{{ s[5:1:-1] }}
{{ d['x'] }}|{{ d.x }}|{{ d['y'][1] }}|{{ d.y.0 }}|{{ d['items'] }}|{{ nested.k.z[0].q }}|{{ nested['k']['z'][0]['q'] }}|{{ d[1] }}|{{ {1: 'one', true: 't'}[1] }}
{{ s.upper() }}|{{ s.lower() }}|{{ s.title() }}|{{ 'abc'.capitalize() }}|{{ '  x '.strip() }}|{{ ' x '.lstrip() }}|{{ ' x '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|{{ s.replace('o', '0') }}|{{ s.replace('o', '0', 1) }}|{{ 'ab'.replace('', '-') }}
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c d'.split(' ', 2) }}|{{ 'a b  c '.split(none, 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'abc'.split('x') }}|{{ 'a\\nb\\r\\nc\\n'.splitlines() }}|{{ ''.split(',') }}|{{ ''.split() }}|{{ ' a b c '.rsplit(none, 1) }}
{{ s.startswith('He') }}|{{ s.endswith(('x', 'ld')) }}|{{ s.find('o') }}|{{ s.rfind('o') }}|{{ s.find('z') }}|{{ u.find('\\u4e16') }}|{{ s.count('l') }}|{{ s.index('W') }}|{{ ', '.join(['a', 'b']) }}|{{ 'abc'.removeprefix('a') }}|{{ 'abc'.removesuffix('c') }}
{{ '12'.isdigit() }}|{{ 'a1'.isalnum() }}|{{ 'ab'.isalpha() }}|{{ ' '.isspace() }}|{{ 'AB'.isupper() }}|{{ 'ab'.islower() }}|{{ ''.isdigit() }}
{{ 'a{}b{}'.format(1, 'x') }}|{{ '{0}{1}{0}'.format('a', 'b') }}|{{ '{x}-{{}}'.format(x=3) }}|{{ '%s=%d%%' % ('a', 3) }}|{{ '%s' % 'x' }}|{{ '%r' % 'x' }}|{{ '%s-%s' | format('a', 1) }}
{{ d.items() | list }}|{{ d.keys() | list }}|{{ d.values() | list }}|{{ d.get('x') }}|{{ d.get('q') }}|{{ d.get('q', 7) }}|{{ d | items | list }}|{{ d | length }}|{{ d | list }}
{{ s | upper }}|{{ s | lower }}|{{ 'hello-big (world) x1y' | title }}|{{ 'HELLO wORLD' | capitalize }}|{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ s | length }}|{{ u | length }}|{{ l | count }}|{{ s | replace('l', 'L') }}|{{ s | replace('l', 'L', 1) }}|{{ 12 | string + 'x' }}
{{ l | first }}|{{ l | last }}|{{ l | join(',') }}|{{ [] | join(',') }}|{{ [1, none, true] | join('-') }}|{{ p | join('+', attribute='n') }}|{{ l | sort }}|{{ words | sort }}|{{ words | sort(case_sensitive=true) }}|{{ words | sort(reverse=true) }}|{{ l | reverse | list }}|{{ s | reverse }}|{{ [] | first }}|{{ 'abc' | list }}
{{ 'cab' | join('-') }}|{{ d | join(',') }}|{{ 'aAb' | unique | list }}|{{ 'ab' | select | list }}|{{ '-'.join('abc') }}|{{ 'cab' | sort }}|{{ d | sort }}|{{ 'cab' | max }}
{{ l | sum }}|{{ l | min }}|{{ l | max }}|{{ [1, 2.5] | sum }}|{{ p[:2] | sum(attribute='v') }}|{{ words | min }}|{{ words | unique | list }}|{{ [1, 1, 2, 1] | unique | list }}|{{ [] | max }}|{{ p[:2] | max(attribute='v') }}
{{ p | map(attribute='n') | list }}|{{ p | map(attribute='v', default=0) | list }}|{{ words | map('upper') | join }}|{{ ['a,b', 'c'] | map('replace', ',', ';') | list }}|{{ nested | map('length') | list }}|{{ [nested] | map(attribute='k.z.0.q') | list }}
{{ p | selectattr('n', 'equalto', 'y') | list }}|{{ p | selectattr('v', 'defined') | map(attribute='n') | list }}|{{ p | rejectattr('v') | list }}|{{ p[:2] | selectattr('v', 'gt', 1) | list }}|{{ [1, 2, 3, 4] | select('even') | list }}|{{ [0, 1, '', 'x'] | select | list }}|{{ [1, 2, 3] | reject('odd') | list }}|{{ ['a', 'b'] | select('in', ['b']) | list }}|{{ [0, 1] | reject | list }}
{{ '12' | int }}|{{ ' 12 ' | int + 1 }}|{{ '3.7' | int }}|{{ 3.7 | int }}|{{ 'x' | int }}|{{ 'x' | int(5) }}|{{ '-4' | int }}|{{ '2.50' | float }}|{{ 'x' | float }}|{{ 2 | float }}|{{ true | int }}|{{ none | int }}|{{ '+7' | int }}
{{ -3 | abs }}|{{ 2.5 | round }}|{{ 3.5 | round }}|{{ 2.675 | round(2) }}|{{ 2.1 | round(0, 'ceil') }}|{{ 2.9 | round(method='floor') }}|{{ 7 | round }}|{{ 1.25 | round(1) }}|{{ (0 - 3.5) | abs }}
{{ d | tojson }}|{{ u | tojson }}|{{ n | tojson }}|{{ [1, 2.0, true, none, 'a"b\\\\'] | tojson }}|{{ {} | tojson }}|{{ [] | tojson(indent=2) }}|{{ '\\n\\t\\x07\\x7f' | tojson }}|{{ u | tojson(ensure_ascii=true) }}|{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}|{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}|{{ 1e100 | tojson }}|{{ {1: 2, none: 3} | tojson }}
{{ tools | tojson(indent=2) }}
{{ nested | tojson(indent=4) }}|{{ {'a': [], 'b': {}, 'c': [1, [2]]} | tojson(indent=0) }}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, first=true, blank=true) }}|{{ lines | indent('> ') }}|{{ '' | indent(2, true) }}
{{ html | e }}|{{ html | escape }}|{{ html | safe }}|{{ 'two words-x' | wordcount }}
{{ words | dictsort if false else {'b': 1, 'A': 3, 'c': 2} | dictsort }}|{{ {'b': 1, 'A': 3} | dictsort(true) }}|{{ {'b': 1, 'A': 3} | dictsort(by='value', reverse=true) }}
{{ a is number }}|{{ b is float }}|{{ a is integer }}|{{ t is integer }}|{{ t is boolean }}|{{ t is number }}|{{ s is string }}|{{ l is sequence }}|{{ s is sequence }}|{{ d is mapping }}|{{ d is iterable }}|{{ a is iterable }}|{{ n is none }}|{{ t is true }}|{{ a is true }}|{{ t is false }}|{{ n is not none }}|{{ range is callable }}
{{ 3 is odd }}|{{ 4 is even }}|{{ 9 is divisibleby 3 }}|{{ 9 is divisibleby(4) }}|{{ a is eq 1 }}|{{ a is equalto(2) }}|{{ a is ne 2 }}|{{ a is in [1, 2] }}|{{ a is lt 2 }}|{{ a is ge 1 }}|{{ 'abc' is lower }}|{{ 'ABC' is upper }}|{{ a is sameas 1 }}|{{ a is not in [2] }}|{{ 'upper' is filter }}
{% if a == 1 %}one{% elif a == 2 %}two{% else %}other{% endif %}|{% if e %}x{% elif l %}y{% endif %}|{% if not e and (t or n) %}ok{% endif %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}={{ x }} {% else %}none{% endfor %}|{% for x in [] %}x{% else %}empty{% endfor %}|{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{% for (i, (j, k)) in [(1, (2, 3))] %}{{ i }}{{ j }}{{ k }}{% endfor %}|{% for c in 'h\\u00e9' %}[{{ c }}]{% endfor %}
{% for i in range(3) %}{% for j in range(i) %}{{ loop.depth }}{{ i }}{{ j }} {% endfor %}{% endfor %}|{{ range(5) | list }}|{{ range(2, 8, 3) | list }}|{{ range(3, 0, -1) | list }}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}never{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% if loop.changed(x > 1) %}!{% endif %}{% endfor %}
{% set x = 5 %}{{ x }}{% set y, z = 1, 2 %}{{ y }}{{ z }}{% set q %}block {{ x }}{% endset %}[{{ q }}]{% set r | upper | replace('B', 'b') %}block{% endset %}[{{ r }}]{% set w = 1, 2 %}{{ w }}
{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}={{ x }}|{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(x=0, found=false) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.found }}{{ ns.zz is defined }}{% set ns2 = namespace({'q': 4}) %}{{ ns2.q }}
{% macro hi(name, greet='Hello', mark) %}{% endmacro %}
{% macro hi(name, greet='Hello', mark='!') %}{{ greet }} {{ name }}{{ mark }}{% endmacro %}{{ hi('Bob') }}|{{ hi('Bob', 'Yo') }}|{{ hi(name='X', mark='?') }}|{{ hi() }}
{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(6) }}|{% set outer = 3 %}{% macro see() %}{{ outer }}{{ late }}{% endmacro %}{{ see() }}{% set late = 4 %}{{ see() }}
{% with a = 10, c = a %}{{ a }}{{ c }}{% endwith %}{{ a }}|{% filter upper %}abc{{ s }}{% endfilter %}|{% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% raw %}{{ not }} {% this %}{% endraw %}|a {%- raw -%} x {%- endraw -%} b|{# comment {{ x }} #}c{#- strip -#} d
a {{- 'x' -}} b|a {%- if true -%} y {%- endif -%} b|{%+ if true %}z{% endif +%} w
  {% if true %}   indented{% endif %}   tail
{% generation %}gen {{ a }}{% endgeneration %} after
{{ dict(a=1, b=2) }}|{{ dict({'z': 1}, y=2) }}|{{ {'a': 1, 'a': 2} }}|{{ {} }}|{{ [] }}|{{ [[], {}] }}
{{ nothing is undefined }}|{{ ms[0].content | trim }}|{{ ms[-1]['content'] }}|{{ ms | map(attribute='role') | join(' ') }}|{{ (ms | selectattr('role', 'equalto', 'user') | list)[-1].content }}|{{ ms[1:] | length }}
{{ d.items is defined }}|{{ d.nope is defined }}|{{ s.nope is defined }}|{{ n.x is defined }}|{{ a.x is defined }}|{{ s.length is defined }}|{{ none.x }}|{{ d.items.nope is defined }}
{{ {'a': {'b': {}}}}}|{{ '}}' }}|{{ '%}' }}|{{ "{{" }}|{{ [1, 2,] }}|{{ {'x': 1,} }}|{{ (1) }}
{{ u | upper }}|{{ 'stra\\u00dfe' | upper }}|{{ '\\u0130' | lower | length }}|{{ '\\u00e9T\\u00c9' | capitalize }}|{{ ' \\u00a0x\\u2003' | trim }}|
{{ 1 is defined and 2 is defined or none }}|{{ not missing is defined }}|{{ (not missing) is defined }}|{{ a == 1 and b > 2 or 'q' }}|{{ 'a' ~ 'b' == 'ab' }}|{{ 1 ~ 2 * 3 }}|{{ -a | abs }}|{{ 'x' + 'y' | upper }}
{% for r, g in ms | groupby('role') %}{{ r }}:{{ g | length }} {% endfor %}|{% for g in words | map('lower') | map('list') | groupby(0) %}{{ g.grouper }}{{ g.list | length }}{% endfor %}|{% for g in p | groupby('v', default=0) %}{{ g[0] }}{{ g[1] | map(attribute='n') | join }}{% endfor %}|{{ [{'k': 'b'}, {'k': 'A'}, {'k': 'B'}] | groupby('k') }}|{{ [{'k': 'b'}, {'k': 'B'}] | groupby('k', case_sensitive=true) | length }}
{{ range(7) | batch(3) | list }}|{{ range(7) | batch(3, 'x') | list }}|{{ range(6) | batch(3, 'x') | list }}|{{ range(7) | slice(3) | list }}|{{ range(7) | slice(3, 'x') | list }}|{{ range(2) | slice(3) | list }}|{{ [] | batch(2) | list }}
{{ 'one two three four' | truncate(9) }}|{{ 'one two three four' | truncate(9, true) }}|{{ 'one two three four' | truncate(12, false, '~') }}|{{ 'one two three' | truncate(10) }}|{{ 'one two three' | truncate(10, leeway=0) }}|{{ 'h\u00e9llo w\u00f6rld \u4e16\u754c and more' | truncate(12, leeway=0) }}|{{ s | truncate }}
{{ 'a b/c?d=\u00e9&~' | urlencode }}|{{ {'a b': 1, 'c': 'x/y&z'} | urlencode }}|{{ [('q', 'x y'), ('r', 2)] | urlencode }}|{{ 12 | urlencode }}
{{ 'abc' | center(8) }}|{{ 'abcd' | center(7) }}|{{ 'ab'.center(7, '*') }}|{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4, '.') }}|{{ '-42'.zfill(6) }}|{{ '42'.zfill(1) }}|{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'abc'.partition('x') }}|{{ 'abc'.rpartition('x') }}|{{ 'abcabc'.rindex('b') }}|{{ html | forceescape }}|{{ 'HeLLo'.casefold() }}
{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('x') %}in {{ a }}{% endcall %}|{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) each(l) %}{{ i }}={{ x }};{% endcall %}|{% call(x, i=9) each([1]) %}{{ x }}{{ i }}{% endcall %}
{% macro has() %}{{ caller is defined }}{% endmacro %}{{ has() }}|{% call has() %}{% endcall %}
{% block b %}x{{ a }}{% endblock %}|{% block c %}{% set z = 4 %}{{ z }}{% endblock c %}{{ z }}|{% for x in l %}{% block d scoped %}{{ x }}{% endblock %}{% endfor %}|{% set top = 5 %}{% for x in l %}{% block e %}{{ top }}{{ x }}{% endblock %}{% endfor %}
{% for x in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}, {'n': 4}]}, {'n': 5}] recursive %}{{ loop.depth }}{{ loop.depth0 }}:{{ x.n }}{% if x.c %}({{ loop(x.c) }}){% endif %}{{ '' if loop.last else ',' }}{% endfor %}
{% set c = cycler('a', 'b', 'c') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}|{% set j = joiner(' + ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}|{% set k = joiner() %}{{ k() }}a{{ k() }}b
{{ '%.2f' % 1.5 }}|{{ '%5.1f|%-6d|%06.2f|%+d|% d' % (2.25, 42, 3.14159, 7, 8) }}|{{ '%x %X %o %#x' % (255, 255, 8, 255) }}|{{ '%e %g %G' % (12345.678, 0.00001234, 1e20) }}|{{ '%(n)s is %(v).1f' % {'n': 'pi', 'v': 3.14159} }}|{{ '%5s|%-5s|%.2s' % ('ab', 'ab', 'abcd') }}|{{ '%c%c' % ('x', 65) }}|{{ '%*d' % (5, 42) }}|{{ '%d' % 3.99 }}|{{ '%i%%' % true }}|{{ '%05d' % -42 }}|{{ '%-05d|' % 42 }}
{{ '%.1f%% of %s' | format(12.345, 'x') }}|{{ '%(a)s-%(b)s' | format(a=1, b=2) }}
{{ '{:.1f}'.format(1.5) }}|{{ '{:>8}|{:<8}|{:^8}|{:*^9}'.format('ab', 'cd', 'ef', 'gh') }}|{{ '{:5d}|{:05d}|{:+}|{:,}|{:_}'.format(42, -42, 7, 1234567, 1234567) }}|{{ '{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255) }}|{{ '{:e} {:g} {:.3} {:%} {:.1%}'.format(1234.5, 0.00001, 3.14159, 0.256, 0.256) }}|{{ '{:10.3f}|{:<10.2f}|{:,.2f}'.format(3.14159, 2.5, 1234567.891) }}
{{ '{0[x]}{1.role}{2[0]}'.format(d, ms[0], l) }}|{{ '{!r} {!s:>5}'.format('q', 'w') }}|{{ '{:.3}|{:5}|'.format('abcdef', true) }}|{{ '{:s}'.format('x') }}|{{ '{:.3}'.format(3.0) }}|{{ '{:.3}'.format(1234.0) }}|{{ '{}'.format(1.0) }}|{{ '{:c}'.format(233) }}|{{ '{:=+7}'.format(42) }}
{{ ms | selectattr('role', '==', 'user') | list | length }}|{{ [1, 2, 3] | select('>=', 2) | list }}|{{ [1, 2, 3] | reject('!=', 2) | list }}|{{ [1, 2, 3] | select('<', 2) | list }}|{{ [1, 2, 3] | select('greaterthan', 1) | list }}|{{ [1, 2, 3] | select('<=', 1) | list }}|{{ [1, 2, 3] | select('>', 2) | list }}|{{ s is escaped }}
{{ d | attr('x') is defined }}|{{ s | attr('upper') is defined }}|{{ (s | attr('upper'))() }}
{{ '%q' % 1 }}
{{ '%s %s' % 'x' }}
{{ '%d' % 'x' }}
{{ '{:d}'.format(1.5) }}
{{ '{:d}'.format('x') }}
{{ '%(x)s' % {'y': 1} }}
{{ 'abc'.rindex('z') }}
{% for x in l %}{{ loop([1]) }}{% endfor %}
{% call 1 %}{% endcall %}
{{ missing.x }}
{{ missing + 'x' }}
{{ missing() }}
{{ 1 + 'x' }}
{{ n.x.y }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ none | length }}
{{ 1 < 'a' }}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{{ raise_exception('my ' + 'message') }}
{% if ms[0].role == 'system' %}{{ raise_exception('no system: \\u00e9') }}{% endif %}
{{ l.append(1) }}
{{ d.update({}) }}
{{ s.__class__ }}
{% set d.x = 1 %}
{{ range(1000000) | length }}
{{ [1] | tojson(1, 2, 3, 4, 5) }}
{{ s | nofilter }}
{{ s is notest }}
{% notag %}
{% if true %}
{{ 1 + }}
{{ (1 }}
{{ 'abc }}
{% for x in l %}{% endif %}
{% endif %}
{{ a b }}
{% include 'x' %}
{% break %}
{{ missing | tojson }}
{{ l['x']['y'] }}
{{ 'a' in 5 }}
{{ [1, 'a'] | sort }}
{{ [missing.a] }}
{% set a, b = 1, 2, 3 %}
{{ s.format }}{{ {}['a'].b }}
{{ hi('x') }}
"""


def cases():
    for name, template, variables in (
            [("chatml", CHATML, v) for v in FULL] + [("inst", INST, v) for v in FULL] +
            [("headers", HEADERS, v) for v in FULL] + [("reasoning", REASONING, v) for v in FULL] +
            [("turns", TURNS, v) for v in FULL] + [("mistral", MISTRAL, v) for v in FULL] +
            [("schema", SCHEMA, TOOLS)]):
        yield name, template, variables
    for line in SMALL.strip("\n").split("\n"):
        # Each line is a template; \\ in it is already a single backslash.
        yield "small", line, V
    multi = [
        "{% if a %}\n  yes\n{% endif %}\nafter\n", "  {%- if a %}\n  yes\n  {%- endif %}\n\nafter\n\n",
        "{# c #}\nx\n  {# d #}  \ny", "a\r\nb\rc\n{% set x = 1 %}\r\n{{ x }}\r\n", "{{ 'a\nb' }}\n\n",
        "\n\n  {% for i in l %}\n    - {{ i }}\n  {% endfor %}\nend", "x\n  {%+ if a %}y{% endif %}\n",
        "{% raw %}\n  {{ x }}\n{% endraw %}\nz", "  {{ a }}  \n  {{- a }}\n  {{ a -}}\n  b", "{{a}}\n{{b}}\n",
        "{% for m in ms %}\n{{ m.role }}: {{ m.content }}\n{% endfor %}", "{% set x %}\n  a\n{% endset %}[{{ x }}]",
        "{% macro m(x) %}\n<{{ x }}>\n{% endmacro %}\n{{ m(1) }}{{ m(2) -}}\n   q", "{{ a }}{% if a -%}   \n   x{%- endif %}   \n",
        "{%- for t in tools %}\n    {%- for k, v in t.function.parameters.properties.items() %}\n{{ k }}: {{ v.type }}\n    {%- endfor %}\n{%- endfor %}",
        "text only", "", "\n", "{", "{ {x} }", "{{ a }}{", "100%", "{#- a -#}", "{% if a %}{% endif %}",
    ]
    for template in multi:
        yield "space", template, V


def main():
    env = environment()
    templates, variables, out = [], [], []

    def number(table, item):
        if item not in table:
            table.append(item)
        return table.index(item)

    for name, template, values in cases():
        case = {"name": name, "template": number(templates, template),
                "variables": number(variables, json.loads(json.dumps(values)))}
        try:
            case["text"] = env.from_string(template).render(**values)
        except Raised as e:
            case["error"] = str(e)
        except Exception as e:
            case["error"] = True
            if name != "small":
                print(name, type(e).__name__, e)
        out.append(case)
    text = json.dumps({"templates": templates, "variables": variables, "cases": out}, indent=0, ensure_ascii=False)
    (HERE / "cases.json").write_text(text)
    print(len(out), "cases,", sum("error" in c for c in out), "errors,", len(text), "bytes")


if __name__ == "__main__":
    main()
