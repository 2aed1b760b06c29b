"""llm, the command line tool, with the server as one of its models."""

import os
import pathlib
import subprocess
import sys
import tempfile

from checks import MODEL, call, main

HOME = tempfile.TemporaryDirectory()


def run(url, *arguments):
    pathlib.Path(HOME.name, "extra-openai-models.yaml").write_text(
        f"- model_id: tandem\n  model_name: {MODEL}\n  api_base: {url}/v1\n"
        f"- model_id: tandem-text\n  model_name: {MODEL}\n  api_base: {url}/v1\n  completion: true\n",
        encoding="utf-8")
    ran = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "llm"), *arguments], capture_output=True, text=True,
        timeout=120, check=False,
        env={**os.environ, "LLM_USER_PATH": HOME.name, "OPENAI_API_KEY": "none"})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@call("chat, streamed")
def streamed(url):
    assert run(url, "-m", "tandem", "-o", "max_tokens", "8", "What does numpy.mean do?").strip()


@call("chat")
def whole(url):
    assert run(url, "-m", "tandem", "--no-stream", "-o", "max_tokens", "8", "What?").strip()


@call("completions")
def completions(url):
    assert run(url, "-m", "tandem-text", "--no-stream", "-o", "max_tokens", "8", "def ").strip()


main()
