"""guidellm's benchmark, with a tokenizer from the demo model's folder."""

import json
import pathlib
import subprocess
import sys
import tempfile

from checks import MODEL, call, main

TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "data" / MODEL


@call("benchmark")
def benchmark(url):
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "guidellm"), "run", "--backend",
             f"kind=openai_http,target={url},model={MODEL}", "--tokenizer",
             f"kind=hf_auto,model={TOKENIZER}", "--profile", "kind=synchronous", "--constraint",
             "kind=max_requests,count=4", "--data",
             "kind=synthetic_text,prompt_tokens=16,output_tokens=8", "--output",
             f"kind=json,path={folder}/report.json", "--disable-progress"],
            capture_output=True, text=True, timeout=300, check=False, cwd=folder)
        assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-2000:]
        report = pathlib.Path(folder, "report.json")
        requests = json.loads(report.read_text(encoding="utf-8"))["benchmarks"][0]["requests"]
        assert not requests["errored"], requests["errored"][0]["info"]
        assert len(requests["successful"]) == 4, requests


main()
