"""The layers that both halves of the tokenizers of images are made of."""
import math

import torch.nn.functional as F

from weights import near_one, ternary

GROUPS = 32


class Layers:
    """Weights `w` by name, drawn with the generator `g`."""

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
