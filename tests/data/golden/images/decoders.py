"""Decoders of the tokenizers of images, LlamaGen's (arXiv:2406.06525) and Chameleon's (arXiv:2405.09818): codes to pixels."""
import math

import torch
import torch.nn.functional as F

from weights import near_one, ternary

GROUPS = 32


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
