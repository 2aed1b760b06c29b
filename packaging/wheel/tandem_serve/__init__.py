"""The program `tandem`, which serves one base LLM and many LoRA adapters of it."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "tandem"


def main():
    """Becomes the program, so that signals and the exit status are its own."""
    os.execv(PROGRAM, ["tandem", *sys.argv[1:]])
