"""litellm, which calls the server as a provider of OpenAI's kind."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it asks GitHub for one

import litellm
from checks import MESSAGES, MODEL, WEATHER, call, equal, main, raises, weather_of

litellm.telemetry = False


def chat(url, model=MODEL, **options):
    options = {"max_tokens": 16, "temperature": 0} | options
    return litellm.completion(model=f"openai/{model}", messages=MESSAGES, api_base=f"{url}/v1",
                              api_key="none", num_retries=0, **options)


@call("chat")
def whole_chat(url):
    assert chat(url).choices[0].message.content


@call("chat, streamed")
def chat_streamed(url):
    pieces = [chunk.choices[0].delta.content or "" for chunk in chat(url, stream=True)]
    equal("".join(pieces), chat(url).choices[0].message.content, "text")


@call("completions")
def completions(url):
    answer = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt="def ",
                                     max_tokens=8, api_base=f"{url}/v1", api_key="none")
    assert answer.choices[0].text


@call("embeddings")
def embeddings(url):
    answer = litellm.embedding(model=f"openai/{MODEL}", input=["x", "def "], api_base=f"{url}/v1",
                               api_key="none", encoding_format="float")
    equal(len(answer.data), 2, "embeddings")


@call("errors")
def errors(url):
    raises(litellm.exceptions.NotFoundError, lambda: chat(url, model="nobody"))
    raises(litellm.exceptions.BadRequestError, lambda: chat(url, temperature=9), "temperature")


@call("tools, auto")
def tools_auto(url):
    assert chat(url, tools=[WEATHER]).choices[0].message is not None


@call("tools, required")
def tools_required(url):
    answer = chat(url, tools=[WEATHER], tool_choice="required", max_tokens=200)
    weather_of(answer.choices[0].message.tool_calls[0].function.arguments)


main()
