"""guidellm's benchmark, with a tokenizer from the demo model's folder."""

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
            [str(pathlib.Path(sys.executable).parent / "guidellm"), "benchmark", "--target", url,
             "--model", MODEL, "--processor", str(TOKENIZER), "--profile", "synchronous",
             "--max-requests", "4", "--data", "prompt_tokens=16,output_tokens=8",
             "--output-path", f"{folder}/report.json"],
            capture_output=True, text=True, timeout=300, check=False, cwd=folder)
        assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-2000:]
        report = pathlib.Path(folder, "report.json")
        assert not report.exists() or '"errored": 0' in report.read_text(encoding="utf-8"), "errors"


main()
