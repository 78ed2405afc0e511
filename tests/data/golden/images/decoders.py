"""Decoders of the tokenizers of images, LlamaGen's (arXiv:2406.06525) and Chameleon's (arXiv:2405.09818): codes to pixels."""
import torch
import torch.nn.functional as F

from layers import Layers
from weights import ternary


def codebook(g, codes, width):
    vectors = ternary(g, codes, width, scale=1.0)
    vectors[vectors.abs().sum(1) == 0] = 0.5
    return vectors


def chameleon_name(name, levels):
    """Of a tensor in the files of Chameleon's tokenizer, the levels of whose decoder count downwards."""
    for ours, theirs in ((".mid.0", ".mid.block_1"), (".mid.1", ".mid.attn_1"), (".mid.2", ".mid.block_2"),
                         ("encoder.conv_blocks.", "encoder.down.")):
        name = name.replace(ours, theirs)
    for level in range(levels):
        name = name.replace(f"decoder.conv_blocks.{level}.", f"decoder.up.{levels - 1 - level}.")
    return name.replace(".res.", ".block.")


class Decoder(Layers):
    """The decoder of the tokenizer: codes to pixels."""

    unit_codes, attends_in_levels = True, True

    def __init__(self, channels, multipliers, blocks, latent, codes, code_width, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.multipliers, self.blocks = multipliers, blocks
        self.w = {"quantize.embedding.weight": codebook(self.g, codes, code_width)}
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
