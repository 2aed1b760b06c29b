"""instructor: objects out of answers, by tools and by schemas."""

from typing import Literal

import instructor
import openai
import pydantic
from checks import MESSAGES, MODEL, call, main


class Weather(pydantic.BaseModel):
    """The weather of a city"""

    city: Literal["Oslo", "Lima"]


def asked(url, mode, **options):
    client = instructor.from_openai(
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=mode)
    return client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=200,
                                          temperature=0, max_retries=0, **options)


@call("object by a tool")
def by_tool(url):
    assert isinstance(asked(url, instructor.Mode.TOOLS, response_model=Weather), Weather)


@call("object by a schema")
def by_schema(url):
    assert isinstance(asked(url, instructor.Mode.JSON_SCHEMA, response_model=Weather), Weather)


@call("plain chat")
def plain(url):
    assert asked(url, instructor.Mode.TOOLS, response_model=None).choices[0].message.content


main()
