"""The official openai package; tests/engine/server/openai_client.py checks its answers closer."""

import asyncio
from typing import Literal

import openai
import pydantic
from checks import MESSAGES, MODEL, WEATHER, call, equal, main, raises, weather_of


class Weather(pydantic.BaseModel):
    """The weather of a city"""

    city: Literal["Oslo", "Lima"]
    warm: bool


NAMED = {"type": "function", "function": {"name": "get_weather"}}


def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


def chat(url, **options):
    options = {"model": MODEL, "messages": MESSAGES, "max_tokens": 16, "temperature": 0} | options
    return client(url).chat.completions.create(**options)


@call("models")
def models(url):
    assert MODEL in [model.id for model in client(url).models.list()]


@call("completions")
def completions(url):
    answer = client(url).completions.create(model="python", prompt="def ", max_tokens=8, n=2)
    equal(len(answer.choices), 2, "choices")


@call("completions, streamed")
def completions_streamed(url):
    stream = client(url).completions.create(model=MODEL, prompt="def ", max_tokens=8, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream)


@call("chat")
def whole_chat(url):
    assert chat(url).choices[0].message.content


@call("chat, streamed")
def chat_streamed(url):
    pieces = [chunk.choices[0].delta.content or "" for chunk in chat(url, stream=True)]
    equal("".join(pieces), chat(url).choices[0].message.content, "text")


@call("chat, asynchronous")
def chat_async(url):
    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as asked:
            return await asyncio.gather(*(asked.chat.completions.create(
                model=MODEL, messages=MESSAGES, max_tokens=4) for _ in range(8)))

    equal(len(asyncio.run(ask())), 8, "answers")


@call("logprobs")
def logprobs(url):
    content = chat(url, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    equal(len(content[0].top_logprobs), 2, "top logprobs")


@call("embeddings")
def embeddings(url):
    asked = client(url).embeddings
    both = asked.create(model=MODEL, input=["x", "def "]).data  # in base64, unless told otherwise
    equal(len(both), 2, "embeddings")
    assert abs(sum(x * x for x in both[1].embedding) - 1) < 1e-4
    listed = asked.create(model=MODEL, input="def ", encoding_format="float").data[0].embedding
    assert max(abs(x - y) for x, y in zip(listed, both[1].embedding)) < 1e-3
    equal(len(asked.create(model=MODEL, input="x", dimensions=8).data[0].embedding), 8, "dimensions")
    raises(openai.BadRequestError, lambda: asked.create(model=MODEL, input="x", dimensions=99999), "dimensions")


@call("errors")
def errors(url):
    raises(openai.NotFoundError, lambda: chat(url, model="nobody"), "does not exist")
    raises(openai.BadRequestError, lambda: chat(url, temperature=9), "temperature")
    raises(openai.BadRequestError, lambda: chat(url, tools=[{"type": "function"}]), "tools")


@call("tools, auto")
def tools_auto(url):
    assert chat(url, tools=[WEATHER]).choices[0].finish_reason in ("stop", "length", "tool_calls")


@call("tools, required")
def tools_required(url):
    answer = chat(url, tools=[WEATHER], tool_choice="required", max_tokens=200,
                  parallel_tool_calls=False)
    equal(answer.choices[0].finish_reason, "tool_calls", "finish reason")
    calls = answer.choices[0].message.tool_calls
    equal(calls[0].function.name, "get_weather", "name")
    weather_of(calls[0].function.arguments)


@call("tools, named, streamed")
def tools_streamed(url):
    stream = chat(url, tools=[WEATHER], tool_choice=NAMED, max_tokens=200, stream=True)
    names, arguments = [], ""
    for chunk in stream:
        for piece in chunk.choices[0].delta.tool_calls or []:
            if piece.function.name:
                names.append(piece.function.name)
            arguments += piece.function.arguments or ""
    equal(names, ["get_weather"], "names")
    weather_of(arguments)


@call("tools, parse()")
def tools_parsed(url):
    answer = client(url).chat.completions.parse(
        model=MODEL, messages=MESSAGES, tools=[openai.pydantic_function_tool(Weather)],
        tool_choice={"type": "function", "function": {"name": "Weather"}}, max_tokens=300)
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Weather)


@call("response_format, parse()")
def format_parsed(url):
    answer = client(url).chat.completions.parse(model=MODEL, messages=MESSAGES, max_tokens=300,
                                                response_format=Weather)
    assert isinstance(answer.choices[0].message.parsed, Weather)


main()
