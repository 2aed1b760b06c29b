#!/usr/bin/env python3
"""Makes values.safetensors: random blocks of each of GGUF's element types, and the floats that the
package `gguf` makes of them. Needs numpy, gguf and safetensors from PyPI.

    python3 make.py
"""
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of a block's f16 numbers. Random bits would often be infinite there.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}


def main() -> None:
    random = np.random.default_rng(20261129)
    tensors = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        if elements == 1:
            values = random.standard_normal(64).astype(np.float32)
            packed = gguf.quants.quantize(values, kind).view(np.uint8).reshape(1, -1)
        else:
            packed = random.integers(0, 256, (max(2, 128 // elements), size), dtype=np.uint8)
            for at in HALVES[name]:
                scales = random.standard_normal(len(packed)).astype(np.float16)
                packed[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
        tensors[name + ".packed"] = packed
        plain = {"F32": np.float32, "F16": np.float16}.get(name)
        tensors[name + ".expected"] = (packed.view(plain).astype(np.float32) if plain
                                       else gguf.quants.dequantize(packed, kind))
    save_file(tensors, pathlib.Path(__file__).parent / "values.safetensors")


if __name__ == "__main__":
    main()
