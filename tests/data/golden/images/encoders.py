"""Encoders of the tokenizers of images, LlamaGen's (arXiv:2406.06525) and Chameleon's (arXiv:2405.09818): pixels to codes."""
import json
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F

from decoders import chameleon_name, codebook
from layers import Layers
from weights import write_safetensors


class Encoder(Layers):
    """The encoder of the tokenizer. Files of it alone have no decoder."""

    unit_codes, attends_in_levels = True, True

    def __init__(self, channels, multipliers, blocks, latent, codes, code_width, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.levels, self.blocks = len(multipliers), blocks
        self.w = {"quantize.embedding.weight": codebook(self.g, codes, code_width)}
        self.add_conv("encoder.conv_in", 3, channels, 3)
        width = channels
        for level, multiplier in enumerate(multipliers):
            at = f"encoder.conv_blocks.{level}."
            last = level + 1 == self.levels
            for j in range(blocks):
                self.add_block(f"{at}res.{j}", width, channels * multiplier)
                width = channels * multiplier
                if last and self.attends_in_levels:
                    self.add_attention(f"{at}attn.{j}", width)
            if not last:
                self.add_conv(f"{at}downsample.conv", width, width, 3)
        self.add_block("encoder.mid.0", width, width)
        self.add_attention("encoder.mid.1", width)
        self.add_block("encoder.mid.2", width, width)
        self.add_norm("encoder.norm_out", width)
        self.add_conv("encoder.conv_out", width, latent, 3)
        self.add_conv("quant_conv", latent, code_width, 1)

    def vectors(self, picture):
        """Of 8-bit pixels [height, width, 3]: [cells, width of a code]."""
        x = (picture.float() / 127.5 - 1).permute(2, 0, 1)[None].contiguous()
        x = self.conv("encoder.conv_in", x)
        for level in range(self.levels):
            at = f"encoder.conv_blocks.{level}."
            last = level + 1 == self.levels
            for j in range(self.blocks):
                x = self.block(f"{at}res.{j}", x)
                if last and self.attends_in_levels:
                    x = self.attention(f"{at}attn.{j}", x)
            if not last:
                down = f"{at}downsample.conv"
                x = F.conv2d(F.pad(x, (0, 1, 0, 1)), self.w[down + ".weight"], self.w[down + ".bias"], stride=2)
        x = self.block("encoder.mid.2", self.attention("encoder.mid.1", self.block("encoder.mid.0", x)))
        x = self.conv("encoder.conv_out", F.silu(self.norm("encoder.norm_out", x)))
        x = self.conv("quant_conv", x)[0].permute(1, 2, 0).flatten(0, 1)
        return F.normalize(x, dim=-1) if self.unit_codes else x

    def nearest(self, vectors):
        """Their codes, and the least by which a second code is further away (squared)."""
        codes = self.w["quantize.embedding.weight"].double()
        if self.unit_codes:
            codes = F.normalize(codes, dim=-1)
        distances = (vectors.double()[:, None, :] - codes[None]).pow(2).sum(-1)
        least = distances.topk(2, largest=False).values
        return distances.argmin(1), (least[:, 1] - least[:, 0]).min().item()

    def record(self, path, picture, least_margin):
        """A picture whose codes do not depend on the order of sums."""
        vectors = self.vectors(picture)
        codes, margin = self.nearest(vectors)
        assert margin > least_margin, margin
        assert len(codes.unique()) > 3, codes
        write_safetensors(path, {"picture": picture, "vectors": vectors, "codes": codes.int()})


class ChameleonEncoder(Encoder):
    unit_codes, attends_in_levels = False, False


class StoredEncoder(Encoder):
    """That of a safetensors file in LlamaGen's layout."""

    def __init__(self, path, levels, blocks):
        self.levels, self.blocks, self.w = levels, blocks, {}
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, tensor in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                assert tensor["dtype"] == "F32", tensor
                begin, end = (8 + size + offset for offset in tensor["data_offsets"])
                values = np.frombuffer(data[begin:end], dtype=np.float32).reshape(tensor["shape"])
                self.w[name] = torch.from_numpy(values.copy())


def random_picture(rows, columns, seed):
    return torch.randint(0, 256, (rows, columns, 3), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def face(side):
    """A yellow face on white."""
    places = (torch.arange(side).float() + 0.5) / (side / 2) - 1
    y, x = torch.meshgrid(places, places, indexing="ij")

    def disk(at_x, at_y, radius):
        return torch.sigmoid((radius - ((x - at_x) ** 2 + (y - at_y) ** 2).sqrt()) * side)

    picture = torch.full((side, side, 3), 255.0)
    mouth = disk(0, 0.15, 0.5) * torch.sigmoid((y - 0.2) * side)
    for share, color in ((disk(0, 0, 0.9), (255, 204, 77)), (disk(-0.3, -0.2, 0.14), (102, 69, 0)),
                         (disk(0.3, -0.2, 0.14), (102, 69, 0)), (mouth, (102, 69, 0))):
        picture += share[..., None] * (torch.tensor(color).float() - picture)
    return picture.round().to(torch.uint8)


def record_encoders(folder):
    encoder = Encoder(channels=32, multipliers=(1, 2), blocks=1, latent=24, codes=48, code_width=8, seed=51)
    torch.save({"model": encoder.w, "steps": 7}, folder / "vq_encoder.pt")
    encoder.record(folder / "vq_encoder.golden.safetensors", random_picture(6, 10, seed=52), least_margin=5e-4)
    chameleon = ChameleonEncoder(channels=32, multipliers=(1, 1, 1), blocks=1, latent=16, codes=24, code_width=16,
                                 seed=53)
    torch.save({"state_dict": {chameleon_name(name, 3): tensor for name, tensor in chameleon.w.items()}},
               folder / "chameleon_vq_encoder.pt")
    chameleon.record(folder / "chameleon_vq_encoder.golden.safetensors", random_picture(8, 16, seed=54),
                     least_margin=1e-2)
    shipped = pathlib.Path(__file__).resolve().parents[4] / "models/emoji/vq.safetensors"
    if shipped.exists():
        StoredEncoder(shipped, levels=3, blocks=1).record(folder / "emoji_encoder.golden.safetensors", face(64),
                                                          least_margin=2e-5)
