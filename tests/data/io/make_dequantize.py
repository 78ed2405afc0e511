"""Makes dequantize/TYPE.bin: little-endian u32 block count, the blocks, then their values as float32.

Run with the Python packages gguf (0.19.0 was used) and numpy: python make_dequantize.py [BLOCKS [FOLDER]]
The block bytes are random, but every scale field is a finite binary16; the first blocks hold extremes.
"""

import pathlib
import struct
import sys

import gguf
import numpy as np

# Per type: byte offsets of the binary16 fields in a block.
SCALES = {
    "F16": [0], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "IQ2_XXS": [0],
}
EXTREMES = [0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x0000, 0x8000, 0x03FF, 0x0400]
FILLS = [0x00, 0xFF, 0x80, 0x7F]


def make_blocks(name, count, rng):
    block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    for i, fill in enumerate(FILLS[: max(0, count - 1)]):
        blocks[i] = fill
    for offset in SCALES[name]:
        scale = rng.normal(0, 0.02, count).astype(np.float16).view(np.uint16)
        for i in range(len(FILLS), count):
            if i % 3 == 0:
                scale[i] = EXTREMES[(i // 3 + offset) % len(EXTREMES)]
        blocks[:, offset : offset + 2] = scale.reshape(-1, 1).view(np.uint8)
    if name == "BF16":  # no infinities or NaN: their payloads have no single right answer
        exponent = (blocks[:, 1] & 0x7F) << 1 | blocks[:, 0] >> 7
        blocks[exponent == 0xFF, 1] ^= 0x40
    return blocks


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent / "dequantize"
    folder.mkdir(exist_ok=True)
    for seed, name in enumerate(SCALES):
        kind = gguf.GGMLQuantizationType[name]
        elements = gguf.GGML_QUANT_SIZES[kind][0]
        blocks = make_blocks(name, count or {1: 256, 32: 24, 256: 6}[elements], np.random.default_rng(seed))
        values = gguf.quants.dequantize(blocks.reshape(1, -1), kind).astype(np.float32).reshape(-1)
        data = struct.pack("<I", len(blocks)) + blocks.tobytes() + values.tobytes()
        (folder / f"{name.lower()}.bin").write_bytes(data)


main()
