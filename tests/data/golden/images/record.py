#!/usr/bin/env python3
"""Records what PyTorch computes with tiny random models in the layouts of LlamaGen (arXiv:2406.06525).

usage: record.py [FOLDER]        (Debian: python3-torch, zstd)

Weights take three values only, so that they compress well. Written from the description of the
architecture in docs/formats.md; shares no code with Talon.
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

GROUPS = 32


def ternary(generator, *shape, scale):
    return (torch.randint(-1, 2, shape, generator=generator).float() * scale).contiguous()


def near_one(generator, width):
    return 1 + ternary(generator, width, scale=0.25)


def write_safetensors(path, tensors):
    header, offset, chunks = {}, 0, []
    for name, tensor in tensors.items():
        data = tensor.contiguous().numpy()
        kind = {"float32": "F32", "int32": "I32"}[str(data.dtype)]
        raw = data.tobytes()
        header[name] = {"dtype": kind, "shape": list(data.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        chunks.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def compress(path):
    subprocess.run(["zstd", "-q", "-f", "-19", "--rm", str(path)], check=True)


class Drawer:
    """The autoregressive model."""

    def __init__(self, hidden, layers, heads, width, codes, prompts, rows, columns, zero_prefix, seed):
        g = torch.Generator().manual_seed(seed)
        self.hidden, self.layers, self.heads, self.codes = hidden, layers, heads, codes
        self.rows, self.columns, self.zero_prefix = rows, columns, zero_prefix
        w = {"tok_embeddings.weight": ternary(g, codes, hidden, scale=0.5),
             "cls_embedding.embedding_table.weight": ternary(g, prompts, hidden, scale=0.5)}
        for i in range(layers):
            at = f"layers.{i}."
            w[at + "attention.wqkv.weight"] = ternary(g, 3 * hidden, hidden, scale=1.6 / math.sqrt(hidden))
            w[at + "attention.wo.weight"] = ternary(g, hidden, hidden, scale=1 / math.sqrt(hidden))
            w[at + "attention_norm.weight"] = near_one(g, hidden)
            w[at + "ffn_norm.weight"] = near_one(g, hidden)
            w[at + "feed_forward.w1.weight"] = ternary(g, width, hidden, scale=1 / math.sqrt(hidden))
            w[at + "feed_forward.w3.weight"] = ternary(g, width, hidden, scale=1 / math.sqrt(hidden))
            w[at + "feed_forward.w2.weight"] = ternary(g, hidden, width, scale=1 / math.sqrt(width))
        w["norm.weight"] = near_one(g, hidden)
        w["output.weight"] = ternary(g, codes, hidden, scale=2 / math.sqrt(hidden))
        self.weights = w

    def turns(self, prefix):
        """(cos, sin) of every row, [rows, head / 2]: prompt first, then the cells."""
        head = self.hidden // self.heads
        half = head // 2
        frequency = 1.0 / (10000 ** (torch.arange(0, half, 2).float() / half))
        row = torch.arange(self.rows).float().outer(frequency)
        column = torch.arange(self.columns).float().outer(frequency)
        angles = torch.cat([row[:, None, :].expand(-1, self.columns, -1),
                            column[None, :, :].expand(self.rows, -1, -1)], dim=-1).reshape(-1, half)
        cos, sin = angles.cos(), angles.sin()
        still = torch.zeros(prefix, half)
        return torch.cat([still if self.zero_prefix else still + 1, cos]), torch.cat([still, sin])

    def logits(self, prompt, codes):
        """Of every code, [len(codes), V], and what the output matrix reads."""
        w, heads = self.weights, self.heads
        x = torch.cat([w["cls_embedding.embedding_table.weight"][prompt],
                       w["tok_embeddings.weight"][codes[:-1]]])
        n, d = x.shape
        head = d // heads
        cos, sin = self.turns(len(prompt))
        cos, sin = cos[:n, None, :], sin[:n, None, :]

        def norm(y, weight):
            return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

        def turn(y):
            even, odd = y[..., 0::2], y[..., 1::2]
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

        mask = torch.full((n, n), -math.inf).triu(1)
        for i in range(self.layers):
            at = f"layers.{i}."
            qkv = norm(x, w[at + "attention_norm.weight"]) @ w[at + "attention.wqkv.weight"].T
            q, k, v = (part.view(n, heads, head) for part in qkv.split(d, -1))
            q, k = turn(q).transpose(0, 1), turn(k).transpose(0, 1)
            scores = q @ k.transpose(1, 2) / math.sqrt(head) + mask
            seen = (scores.softmax(-1) @ v.transpose(0, 1)).transpose(0, 1).reshape(n, d)
            x = x + seen @ w[at + "attention.wo.weight"].T
            y = norm(x, w[at + "ffn_norm.weight"])
            inner = F.silu(y @ w[at + "feed_forward.w1.weight"].T) * (y @ w[at + "feed_forward.w3.weight"].T)
            x = x + inner @ w[at + "feed_forward.w2.weight"].T
        final = norm(x, w["norm.weight"])[len(prompt) - 1:]
        return final @ w["output.weight"].T, final

    def record(self, path, prompt, guide, scale, seed):
        g = torch.Generator().manual_seed(seed)
        codes = torch.randint(0, self.codes, (self.rows * self.columns,), generator=g)
        own, final = self.logits(torch.tensor(prompt), codes)
        other, _ = self.logits(torch.tensor(guide), codes)
        write_safetensors(path, {
            "prompt": torch.tensor(prompt, dtype=torch.int32), "guide": torch.tensor(guide, dtype=torch.int32),
            "codes": codes.int(), "scale": torch.tensor([scale]), "logits": own, "guide_logits": other,
            "guided": other + scale * (own - other), "final": final})


def chameleon_name(name, levels):
    """Of a tensor of the decoder in the files of Chameleon's tokenizer, whose levels count downwards."""
    for ours, theirs in (("mid.0", "mid.block_1"), ("mid.1", "mid.attn_1"), ("mid.2", "mid.block_2")):
        name = name.replace("decoder." + ours, "decoder." + theirs)
    for level in range(levels):
        name = name.replace(f"decoder.conv_blocks.{level}.", f"decoder.up.{levels - 1 - level}.")
    return name.replace(".res.", ".block.")


class Decoder:
    """The decoder of the tokenizer: codes to pixels."""

    unit_codes, attends_in_levels = True, True

    def __init__(self, channels, multipliers, blocks, latent, codes, code_width, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.multipliers, self.blocks = multipliers, blocks
        self.w = {"quantize.embedding.weight": ternary(self.g, codes, code_width, scale=1.0)}
        empty = self.w["quantize.embedding.weight"].abs().sum(1) == 0
        self.w["quantize.embedding.weight"][empty] = 0.5
        self.w["quantize.codebook_used"] = torch.zeros(65536)
        self.add_conv("post_quant_conv", code_width, latent, 1)
        width = channels * multipliers[-1]
        self.add_conv("decoder.conv_in", latent, width, 3)
        self.add_block("decoder.mid.0", width, width)
        self.add_attention("decoder.mid.1", width)
        self.add_block("decoder.mid.2", width, width)
        for i, level in enumerate(reversed(range(len(multipliers)))):
            at = f"decoder.conv_blocks.{i}."
            for j in range(blocks + 1):
                self.add_block(f"{at}res.{j}", width, channels * multipliers[level])
                width = channels * multipliers[level]
                if i == 0 and self.attends_in_levels:
                    self.add_attention(f"{at}attn.{j}", width)
            if level > 0:
                self.add_conv(f"{at}upsample.conv", width, width, 3)
        self.add_norm("decoder.norm_out", width)
        self.add_conv("decoder.conv_out", width, 3, 3)

    def add_conv(self, name, i, o, side):
        self.w[name + ".weight"] = ternary(self.g, o, i, side, side, scale=1.2 / math.sqrt(i * side * side))
        self.w[name + ".bias"] = ternary(self.g, o, scale=0.1)

    def add_norm(self, name, width):
        self.w[name + ".weight"] = near_one(self.g, width)
        self.w[name + ".bias"] = ternary(self.g, width, scale=0.1)

    def add_block(self, name, i, o):
        self.add_norm(name + ".norm1", i)
        self.add_conv(name + ".conv1", i, o, 3)
        self.add_norm(name + ".norm2", o)
        self.add_conv(name + ".conv2", o, o, 3)
        if i != o:
            self.add_conv(name + ".nin_shortcut", i, o, 1)

    def add_attention(self, name, width):
        self.add_norm(name + ".norm", width)
        for part in (".q", ".k", ".v", ".proj_out"):
            self.add_conv(name + part, width, width, 1)

    def conv(self, name, x):
        weight = self.w[name + ".weight"]
        return F.conv2d(x, weight, self.w[name + ".bias"], padding=weight.shape[2] // 2)

    def norm(self, name, x):
        return F.group_norm(x, GROUPS, self.w[name + ".weight"], self.w[name + ".bias"], 1e-6)

    def block(self, name, x):
        y = self.conv(name + ".conv1", F.silu(self.norm(name + ".norm1", x)))
        y = self.conv(name + ".conv2", F.silu(self.norm(name + ".norm2", y)))
        return y + (self.conv(name + ".nin_shortcut", x) if name + ".nin_shortcut.weight" in self.w else x)

    def attention(self, name, x):
        b, c, h, w = x.shape
        y = self.norm(name + ".norm", x)
        q, k, v = (self.conv(name + part, y).reshape(c, h * w) for part in (".q", ".k", ".v"))
        share = (q.T @ k / math.sqrt(c)).softmax(-1)
        return x + self.conv(name + ".proj_out", (v @ share.T).reshape(b, c, h, w))

    def decode(self, codes, rows, columns):
        vectors = self.w["quantize.embedding.weight"][codes]
        if self.unit_codes:
            vectors = F.normalize(vectors, dim=-1)
        x = vectors.reshape(1, rows, columns, -1).permute(0, 3, 1, 2).contiguous()
        x = self.conv("decoder.conv_in", self.conv("post_quant_conv", x))
        x = self.block("decoder.mid.2", self.attention("decoder.mid.1", self.block("decoder.mid.0", x)))
        for i in range(len(self.multipliers)):
            at = f"decoder.conv_blocks.{i}."
            for j in range(self.blocks + 1):
                x = self.block(f"{at}res.{j}", x)
                if i == 0 and self.attends_in_levels:
                    x = self.attention(f"{at}attn.{j}", x)
            if i + 1 < len(self.multipliers):
                x = self.conv(f"{at}upsample.conv", F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.conv("decoder.conv_out", F.silu(self.norm("decoder.norm_out", x)))[0]


class ChameleonDecoder(Decoder):
    unit_codes, attends_in_levels = False, False


def training_file(path, weights):
    """As training scripts save: the weights beside what nobody who draws needs."""
    args = argparse.Namespace(gpt_model="tiny", lr=1e-4, image_size=256)
    moments = {0: {"step": 7, "exp_avg": torch.zeros(3)}}
    torch.save({"model": weights, "optimizer": {"state": moments, "param_groups": [{"lr": 1e-4, "params": [0]}]},
                "steps": 7, "args": args}, path)


def main(folder):
    torch.set_num_threads(1)
    (folder / "words").mkdir(parents=True, exist_ok=True)

    classes = 5
    c2i = Drawer(hidden=128, layers=2, heads=2, width=64, codes=48, prompts=classes + 1, rows=4, columns=4,
                 zero_prefix=True, seed=1)
    low = {name: tensor.bfloat16() if tensor.dim() == 2 else tensor for name, tensor in c2i.weights.items()}
    c2i.weights = {name: tensor.float() for name, tensor in low.items()}
    training_file(folder / "c2i.pt", low)
    c2i.record(folder / "c2i.golden.safetensors", prompt=[2], guide=[classes], scale=3.0, seed=2)

    words = Drawer(hidden=64, layers=2, heads=4, width=96, codes=40, prompts=9, rows=3, columns=5,
                   zero_prefix=False, seed=3)
    write_safetensors(folder / "words/model.safetensors", words.weights)
    config = {"model_type": "llamagen", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 96, "vocab_size": 40, "rms_norm_eps": 1e-5, "rope_theta": 10000, "grid": [3, 5],
              "prefix_rows": 6, "prompt_rows": 9, "prefix_rotation": "identity"}
    (folder / "words/config.json").write_text(json.dumps(config, indent=1) + "\n")
    named = {"words": ["cat", "dog", "red", "moon", "tree"], "styles": ["flat", "round", "line"]}
    (folder / "words/words.json").write_text(json.dumps(named) + "\n")
    words.record(folder / "words/golden.safetensors", prompt=[0, 2, 8, 8, 8, 6], guide=[8] * 6, scale=2.0, seed=4)

    decoder = Decoder(channels=32, multipliers=(1, 2), blocks=1, latent=24, codes=48, code_width=8, seed=5)
    training_file(folder / "vq.pt", decoder.w)
    codes = torch.randint(0, 48, (15,), generator=torch.Generator().manual_seed(6))
    write_safetensors(folder / "vq.golden.safetensors",
                      {"codes": codes.int(), "pixels": decoder.decode(codes, 3, 5)})
    chameleon = ChameleonDecoder(channels=32, multipliers=(1, 1, 2), blocks=1, latent=16, codes=24, code_width=16,
                                 seed=7)
    torch.save({"state_dict": {chameleon_name(name, 3): tensor for name, tensor in chameleon.w.items()},
                "callbacks": {"x": argparse.Namespace(y=1)}, "epoch": 3}, folder / "chameleon_vq.pt")
    codes = torch.randint(0, 24, (8,), generator=torch.Generator().manual_seed(8))
    write_safetensors(folder / "chameleon_vq.golden.safetensors",
                      {"codes": codes.int(), "pixels": chameleon.decode(codes, 2, 4)})
    for name in ("c2i.pt", "c2i.golden.safetensors", "words/model.safetensors", "words/golden.safetensors", "vq.pt",
                 "vq.golden.safetensors", "chameleon_vq.pt", "chameleon_vq.golden.safetensors"):
        compress(folder / name)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
