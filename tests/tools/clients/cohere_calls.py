"""Cohere's client, which ranks documents: a server of tests/data/families/score with its adapters."""

import json
import urllib.request

import cohere
from checks import call, equal, main, raises

DOCUMENTS = ["Hello", "def add(a, b):", "The quick brown fox"]


def scores(url):
    """Of the documents, by the server's own call."""
    body = {"model": "rank", "text_1": "fox", "text_2": DOCUMENTS}
    request = urllib.request.Request(f"{url}/v1/score", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return [each["score"] for each in json.load(answer)["data"]]


def best_first(url):
    expected = scores(url)
    return sorted(range(len(DOCUMENTS)), key=lambda i: -expected[i])


@call("rerank, version 2")
def rerank_v2(url):
    client = cohere.ClientV2(api_key="none", base_url=url)
    results = client.rerank(model="rank", query="fox", documents=DOCUMENTS, top_n=2).results
    equal([each.index for each in results], best_first(url)[:2], "order")
    assert abs(results[0].relevance_score - max(scores(url))) < 1e-4


@call("rerank, version 1")
def rerank_v1(url):
    client = cohere.Client(api_key="none", base_url=url)
    results = client.rerank(model="rank", query="fox", documents=[{"text": each} for each in DOCUMENTS],
                            return_documents=True).results
    equal([each.index for each in results], best_first(url), "order")
    equal(results[0].document.text, DOCUMENTS[best_first(url)[0]], "document")


@call("errors")
def errors(url):
    client = cohere.ClientV2(api_key="none", base_url=url)
    raises(cohere.errors.BadRequestError, lambda: client.rerank(
        model="writer", query="fox", documents=DOCUMENTS), "score head")
    raises(cohere.errors.NotFoundError, lambda: client.rerank(
        model="nobody", query="fox", documents=DOCUMENTS), "does not exist")


main()
