#!/usr/bin/env python3
"""Mixtures of experts to measure with, as GGUF files. Needs nothing but Python.

mixtures.py upcycle DENSE.gguf OUT.gguf [--experts 8] [--used 2]
    Every expert is a copy of the dense model's feed-forward network, which is how sparse upcycling (arXiv:2212.05055)
    begins. The weights of the experts that a row uses add up to 1, so the mixture writes the texts of the dense model
    and its draft heads guess as well, while a forward of several rows reads the experts of all of them.
mixtures.py random qwen3-30b-a3b|gpt-oss-20b|gemma-4-26b-a4b OUT.gguf [--layers 4]
    The shapes of that model with fewer layers, fewer tokens and random weights: for times alone, no tokenizer.

Routers are random.
"""

import argparse
import math
import os
import random
import struct
import sys

ALIGNMENT = 32
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value of each kind
U32, I32, F32_VALUE, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, Q4_1, Q8_0, MXFP4 = 0, 3, 8, 39  # kinds of tensors
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")


class Reader:
    """Reads GGUF's values from the front of a file."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        part = self.data[self.at:self.at + count]
        if len(part) < count:
            sys.exit("mixtures: the file ends early")
        self.at += count
        return part

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return bytes(self.take(self.number("Q")))

    def value(self, kind):
        """The bytes of a value."""
        begin = self.at
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            for _ in range(count) if inner in (STRING, ARRAY) else ():
                self.value(inner)
            if inner not in (STRING, ARRAY):
                self.take(SIZES[inner] * count)
        else:
            self.take(SIZES[kind])
        return bytes(self.data[begin:self.at])


def read(path):
    """Keys with (kind, bytes), and tensors with (name, dimensions, kind, bytes)."""
    with open(path, "rb") as file:
        data = memoryview(file.read())
    reader = Reader(data)
    if reader.take(4) != b"GGUF" or reader.number("I") < 2:
        sys.exit(f"mixtures {path}: expected a GGUF file of version 2 or 3")
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    keys = {}
    for _ in range(key_count):
        name, kind = reader.string(), reader.number("I")
        keys[name.decode()] = (kind, reader.value(kind))
    entries = []
    for _ in range(tensor_count):
        name = reader.string().decode()
        shape = [reader.number("Q") for _ in range(reader.number("I"))]
        entries.append((name, shape, reader.number("I"), reader.number("Q")))
    begin = -(-reader.at // ALIGNMENT) * ALIGNMENT
    ends = sorted(offset for *_, offset in entries) + [len(data) - begin]
    tensors = []
    for name, shape, kind, offset in entries:
        end = min(e for e in ends if e > offset)
        tensors.append((name, shape, kind, bytes(data[begin + offset:begin + end])))
    return keys, tensors


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def write(path, keys, tensors):
    """Writes aside, then renames."""
    aside = path + ".part"
    with open(aside, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        for name, (kind, value) in keys.items():
            file.write(text(name) + struct.pack("<I", kind) + value)
        offset = 0
        for name, shape, kind, data in tensors:
            file.write(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
            offset += -(-sum(map(len, data)) // ALIGNMENT) * ALIGNMENT
        for _, _, _, data in tensors:
            file.write(bytes(-file.tell() % ALIGNMENT))
            for part in data:
                file.write(part)
    os.replace(aside, path)


def number(value):
    return U32, struct.pack("<I", value)


def gaussians(draw, count, deviation):
    return struct.pack(f"<{count}f", *(draw.gauss(0, deviation) for _ in range(count)))


def upcycle(keys, tensors, experts, used):
    """`tensors` as read() gives them; the result as write() takes them."""
    draw = random.Random(1)
    hidden = struct.unpack("<I", keys["llama.embedding_length"][1])[0]
    keys["llama.expert_count"], keys["llama.expert_used_count"] = number(experts), number(used)
    result = []
    for name, shape, kind, data in tensors:
        layer, _, part = name.removeprefix("blk.").partition(".")
        matrix = part.removesuffix(".weight")
        if matrix not in FEED_FORWARD:
            result.append((name, shape, kind, [data]))
            continue
        result.append((f"blk.{layer}.{matrix}_exps.weight", shape + [experts], kind, [data] * experts))
        if matrix == "ffn_gate":
            router = gaussians(draw, hidden * experts, 1)
            result.append((f"blk.{layer}.ffn_gate_inp.weight", [hidden, experts], F32, [router]))
    return result


def q4_1(draw):
    return struct.pack("<ee", draw.uniform(0.002, 0.006), -0.03) + draw.randbytes(16)


def q8_0(draw):
    return struct.pack("<e", draw.uniform(0.0001, 0.0004)) + draw.randbytes(32)


def mxfp4(draw):
    return bytes([draw.randrange(119, 122)]) + draw.randbytes(16)


BLOCKS = {Q4_1: q4_1, Q8_0: q8_0, MXFP4: mxfp4}  # of 32 random values


class RandomMixture:
    """Keys and tensors with random weights, as write() takes them."""

    def __init__(self, architecture, matrix_kind, expert_kind):
        self.architecture, self.matrix_kind, self.expert_kind = architecture, matrix_kind, expert_kind
        self.draw = random.Random(1)
        self.patterns = {kind: [block(self.draw) for _ in range(4999)] for kind, block in BLOCKS.items()}
        self.keys = {"general.architecture": (STRING, text(architecture)),
                     "tokenizer.ggml.model": (STRING, text("no_vocab"))}
        self.tensors = []

    def key(self, name, value):
        kind, form = (F32_VALUE, "<f") if isinstance(value, float) else (U32, "<I")
        self.keys[f"{self.architecture}.{name}"] = (kind, struct.pack(form, value))

    def array(self, name, kind, form, values):
        self.keys[f"{self.architecture}.{name}"] = (ARRAY, struct.pack(f"<IQ{len(values)}{form}", kind, len(values), *values))

    def matrix(self, name, *shape, expert=False):
        kind = self.expert_kind if expert else self.matrix_kind
        first = self.draw.randrange(4999)
        pattern = b"".join(self.patterns[kind][first:] + self.patterns[kind][:first])
        size = math.prod(shape) // 32 * len(self.patterns[kind][0])
        data = [pattern] * (size // len(pattern)) + [pattern[:size % len(pattern)]]
        self.tensors.append((name + ".weight", list(shape), kind, data))

    def values(self, name, *shape, deviation=0.05):
        data = gaussians(self.draw, math.prod(shape), deviation)
        self.tensors.append((name, list(shape), F32, [data]))

    def ones(self, name, count):
        self.tensors.append((name + ".weight", [count], F32, [struct.pack("<f", 1) * count]))


def shapes(mixture, layers, hidden, heads, kv_heads, head_dim, experts, used, width, vocabulary=32000):
    """What all families have."""
    for name, value in (("block_count", layers), ("context_length", 4096), ("embedding_length", hidden),
                        ("feed_forward_length", width), ("attention.head_count", heads),
                        ("attention.head_count_kv", kv_heads), ("attention.key_length", head_dim),
                        ("attention.value_length", head_dim), ("expert_count", experts), ("expert_used_count", used),
                        ("expert_feed_forward_length", width), ("vocab_size", vocabulary),
                        ("attention.layer_norm_rms_epsilon", 1e-6), ("rope.freq_base", 1e6)):
        mixture.key(name, value)
    mixture.matrix("token_embd", hidden, vocabulary)
    mixture.matrix("output", hidden, vocabulary)
    mixture.ones("output_norm", hidden)
    for layer in range(layers):
        block = f"blk.{layer}."
        mixture.ones(block + "attn_norm", hidden)
        mixture.matrix(block + "attn_q", hidden, heads * head_dim)
        mixture.matrix(block + "attn_k", hidden, kv_heads * head_dim)
        mixture.matrix(block + "attn_v", hidden, kv_heads * head_dim)
        mixture.matrix(block + "attn_output", heads * head_dim, hidden)
        mixture.values(block + "ffn_gate_inp.weight", hidden, experts)
        mixture.matrix(block + "ffn_gate_exps", hidden, width, experts, expert=True)
        mixture.matrix(block + "ffn_up_exps", hidden, width, experts, expert=True)
        mixture.matrix(block + "ffn_down_exps", width, hidden, experts, expert=True)


def qwen3_30b_a3b(layers):
    mixture = RandomMixture("qwen3moe", Q4_1, Q4_1)
    shapes(mixture, layers, hidden=2048, heads=32, kv_heads=4, head_dim=128, experts=128, used=8, width=768)
    for layer in range(layers):
        block = f"blk.{layer}."
        mixture.ones(block + "ffn_norm", 2048)
        mixture.ones(block + "attn_q_norm", 128)
        mixture.ones(block + "attn_k_norm", 128)
    return mixture


def gpt_oss_20b(layers):
    mixture = RandomMixture("gpt-oss", Q8_0, MXFP4)
    hidden, heads, kv_heads, head_dim, experts, width = 2880, 64, 8, 64, 32, 2880
    shapes(mixture, layers, hidden, heads, kv_heads, head_dim, experts, 4, width)
    mixture.key("attention.sliding_window", 128)
    for layer in range(layers):
        block = f"blk.{layer}."
        mixture.ones(block + "post_attention_norm", hidden)
        mixture.values(block + "attn_sinks.weight", heads)
        for name, size in (("attn_q", heads * head_dim), ("attn_k", kv_heads * head_dim),
                           ("attn_v", kv_heads * head_dim), ("attn_output", hidden), ("ffn_gate_inp", experts)):
            mixture.values(block + name + ".bias", size)
        for name, size in (("gate", width), ("up", width), ("down", hidden)):
            mixture.values(block + f"ffn_{name}_exps.bias", size, experts)
    return mixture


def gemma_4_26b_a4b(layers):
    """Experts beside a dense network in each layer; every sixth layer and the last see all positions, with heads of
    their own size, whose keys are their values."""
    mixture = RandomMixture("gemma4", Q4_1, Q4_1)
    hidden, heads, experts, expert_width, width, vocabulary = 2816, 16, 128, 704, 2112, 32000
    windowed = [i % 6 != 5 and i != layers - 1 for i in range(layers)]
    for name, value in (("block_count", layers), ("context_length", 4096), ("embedding_length", hidden),
                        ("feed_forward_length", width), ("attention.head_count", heads), ("vocab_size", vocabulary),
                        ("attention.key_length", 512), ("attention.value_length", 512),
                        ("attention.key_length_swa", 256), ("attention.value_length_swa", 256),
                        ("rope.dimension_count", 512), ("rope.dimension_count_swa", 256), ("rope.freq_base", 1e6),
                        ("rope.freq_base_swa", 1e4), ("attention.sliding_window", 1024),
                        ("attention.shared_kv_layers", 0), ("embedding_length_per_layer_input", 0),
                        ("attention.layer_norm_rms_epsilon", 1e-6), ("final_logit_softcapping", 30.0),
                        ("expert_count", experts), ("expert_used_count", 8),
                        ("expert_feed_forward_length", expert_width)):
        mixture.key(name, value)
    mixture.array("attention.head_count_kv", I32, "i", [8 if window else 2 for window in windowed])
    mixture.array("attention.sliding_window_pattern", BOOL, "?", windowed)
    mixture.matrix("token_embd", hidden, vocabulary)
    mixture.ones("output_norm", hidden)
    turning = 64  # pairs of a head of 512; a divisor this large leaves the others as they are
    mixture.tensors.append(("rope_freqs.weight", [256], F32, [struct.pack("<256f", *([1] * turning + [1e30] * (256 - turning)))]))
    for layer, window in enumerate(windowed):
        block = f"blk.{layer}."
        size, kv_heads = (256, 8) if window else (512, 2)
        mixture.matrix(block + "attn_q", hidden, heads * size)
        mixture.matrix(block + "attn_k", hidden, kv_heads * size)
        if window:
            mixture.matrix(block + "attn_v", hidden, kv_heads * size)
        mixture.matrix(block + "attn_output", heads * size, hidden)
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2",
                     "post_ffw_norm_2"):
            mixture.ones(block + name, hidden)
        mixture.ones(block + "attn_q_norm", size)
        mixture.ones(block + "attn_k_norm", size)
        mixture.ones(block + "layer_output_scale", 1)
        mixture.matrix(block + "ffn_gate", hidden, width)
        mixture.matrix(block + "ffn_up", hidden, width)
        mixture.matrix(block + "ffn_down", width, hidden)
        mixture.values(block + "ffn_gate_inp.weight", hidden, experts)
        mixture.values(block + "ffn_gate_inp.scale", hidden, deviation=1)
        mixture.matrix(block + "ffn_gate_up_exps", hidden, 2 * expert_width, experts, expert=True)
        mixture.matrix(block + "ffn_down_exps", expert_width, hidden, experts, expert=True)
        mixture.values(block + "ffn_down_exps.scale", experts, deviation=1)
    return mixture


RANDOM = {"qwen3-30b-a3b": qwen3_30b_a3b, "gpt-oss-20b": gpt_oss_20b, "gemma-4-26b-a4b": gemma_4_26b_a4b}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    upcycled = kinds.add_parser("upcycle")
    upcycled.add_argument("dense")
    upcycled.add_argument("out")
    upcycled.add_argument("--experts", type=int, default=8)
    upcycled.add_argument("--used", type=int, default=2)
    drawn = kinds.add_parser("random")
    drawn.add_argument("model", choices=RANDOM)
    drawn.add_argument("out")
    drawn.add_argument("--layers", type=int, default=4)
    asked = parser.parse_args()
    if asked.kind == "random":
        if asked.layers < 1:
            sys.exit(f"mixtures: expected --layers of at least 1, found {asked.layers}")
        mixture = RANDOM[asked.model](asked.layers)
        write(asked.out, mixture.keys, mixture.tensors)
        return
    if not 1 <= asked.used <= asked.experts:
        sys.exit(f"mixtures: expected --used from 1 to {asked.experts}, found {asked.used}")
    keys, tensors = read(asked.dense)
    architecture = keys["general.architecture"][1][8:].decode()
    if architecture != "llama":
        sys.exit(f'mixtures {asked.dense}: expected the architecture "llama", found "{architecture}"')
    write(asked.out, keys, upcycle(keys, tensors, asked.experts, asked.used))


main()
