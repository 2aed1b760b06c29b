"""LangChain's langchain-openai: chat models, tools, structured output, plain completions."""

from typing import Literal

import openai
import pydantic
from checks import MODEL, call, equal, main, raises, weather_of
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from typing import Literal

QUESTION = [HumanMessage("What does numpy.mean do?")]


@tool
def get_weather(city: Literal["Oslo", "Lima"]) -> str:
    """The weather of a city."""
    return f"sun in {city}"


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Lima"]


def model(url, **options):
    options = {"max_tokens": 16, "temperature": 0} | options
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0, **options)


@call("chat")
def chat(url):
    assert model(url).invoke([SystemMessage("Be short."), *QUESTION]).content


@call("chat, streamed")
def chat_streamed(url):
    pieces = [chunk.content for chunk in model(url).stream(QUESTION)]
    equal("".join(pieces), model(url).invoke(QUESTION).content, "text")


@call("chat, in a batch")
def chat_batch(url):
    equal(len(model(url).batch([QUESTION] * 4)), 4, "answers")


@call("completions")
def completions(url):
    assert OpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_tokens=8).invoke("def ")


@call("embeddings")
def embeddings(url):
    asked = OpenAIEmbeddings(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0,
                             check_embedding_ctx_length=False)
    equal(len(asked.embed_documents(["x", "def "])), 2, "embeddings")


@call("errors")
def errors(url):
    raises(openai.BadRequestError, lambda: model(url, temperature=9).invoke(QUESTION))


@call("bind_tools, auto")
def tools_auto(url):
    assert model(url).bind_tools([get_weather]).invoke(QUESTION).type == "ai"


@call("bind_tools, required")
def tools_required(url):
    bound = model(url, max_tokens=200).bind_tools([get_weather], tool_choice="required")
    calls = bound.invoke(QUESTION).tool_calls
    equal(calls[0]["name"], "get_weather", "name")
    weather_of(calls[0]["args"])


@call("bind_tools, named, streamed")
def tools_streamed(url):
    bound = model(url, max_tokens=200).bind_tools([get_weather], tool_choice="get_weather")
    whole = None
    for chunk in bound.stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    weather_of(whole.tool_calls[0]["args"])


@call("with_structured_output, by a tool")
def structured_by_tool(url):
    asked = model(url, max_tokens=200).with_structured_output(Weather, method="function_calling")
    assert isinstance(asked.invoke(QUESTION), Weather)


@call("with_structured_output, by a schema")
def structured_by_schema(url):
    asked = model(url, max_tokens=200).with_structured_output(Weather, method="json_schema")
    assert isinstance(asked.invoke(QUESTION), Weather)


main()
