#!/usr/bin/env python3
"""Records what PyTorch computes with tiny random models in the layouts of LlamaGen (arXiv:2406.06525), LANTERN
(arXiv:2410.03355), Chameleon (arXiv:2405.09818), Lumina-mGPT (arXiv:2408.02657) and Janus (arXiv:2410.13848).

usage: record.py [FOLDER]        (Debian: python3-torch, zstd)

Weights take three values only, so that they compress well. Written from the description of the
architecture in docs/formats.md; shares no code with Talon.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

from decoders import ChameleonDecoder, Decoder, chameleon_name
from encoders import record_encoders
from weights import compress, near_one, ternary, write_safetensors


def rms_norm(y, weight, epsilon=1e-5):
    return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def turn_pairs(y, cos, sin):
    """Of neighbours."""
    even, odd = y[..., 0::2], y[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def turn_halves(y, cos, sin):
    first, second = y.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attend(q, k, v, mask):
    """[rows, heads, head] each."""
    q, k, v = (part.transpose(0, 1) for part in (q, k, v))
    seen = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v
    return seen.transpose(0, 1).flatten(1)


def causal(rows):
    return torch.full((rows, rows), -math.inf).triu(1)


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

        for i in range(self.layers):
            at = f"layers.{i}."
            qkv = rms_norm(x, w[at + "attention_norm.weight"]) @ w[at + "attention.wqkv.weight"].T
            q, k, v = (part.view(n, heads, head) for part in qkv.split(d, -1))
            seen = attend(turn_pairs(q, cos, sin), turn_pairs(k, cos, sin), v, causal(n))
            x = x + seen @ w[at + "attention.wo.weight"].T
            y = rms_norm(x, w[at + "ffn_norm.weight"])
            inner = F.silu(y @ w[at + "feed_forward.w1.weight"].T) * (y @ w[at + "feed_forward.w3.weight"].T)
            x = x + inner @ w[at + "feed_forward.w2.weight"].T
        final = rms_norm(x, w["norm.weight"])[len(prompt) - 1:]
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


class CaptionDrawer(Drawer):
    """Prompts are features of captions, padded on the left as the published code pads them."""

    def __init__(self, places, caption_width, **sizes):
        super().__init__(prompts=1, zero_prefix=True, **sizes)
        g, d = torch.Generator().manual_seed(sizes["seed"] + 100), self.hidden
        del self.weights["cls_embedding.embedding_table.weight"]
        at = "cls_embedding."
        self.weights[at + "cap_proj.fc1.weight"] = ternary(g, d, caption_width, scale=1.5 / math.sqrt(caption_width))
        self.weights[at + "cap_proj.fc2.weight"] = ternary(g, d, d, scale=1.5 / math.sqrt(d))
        self.weights[at + "uncond_embedding"] = ternary(g, places, caption_width, scale=0.5)
        self.places = places

    def caption_rows(self, features):
        at = "cls_embedding.cap_proj."
        return F.gelu(features @ self.weights[at + "fc1.weight"].T, approximate="tanh") @ \
            self.weights[at + "fc2.weight"].T

    def states(self, prefix, masked, codes):
        """What the output matrix reads, of every row; the first `masked` rows are padding."""
        w, heads, d = self.weights, self.heads, self.hidden
        x = torch.cat([prefix, w["tok_embeddings.weight"][codes[:-1]]])
        n = len(x)
        cos, sin = (part[:n, None, :] for part in self.turns(len(prefix)))
        mask = causal(n)
        mask[:, :masked] = -math.inf
        mask.fill_diagonal_(0)
        for i in range(self.layers):
            at = f"layers.{i}."
            qkv = rms_norm(x, w[at + "attention_norm.weight"]) @ w[at + "attention.wqkv.weight"].T
            q, k, v = (part.view(n, heads, d // heads) for part in qkv.split(d, -1))
            x = x + attend(turn_pairs(q, cos, sin), turn_pairs(k, cos, sin), v, mask) @ w[at + "attention.wo.weight"].T
            y = rms_norm(x, w[at + "ffn_norm.weight"])
            inner = F.silu(y @ w[at + "feed_forward.w1.weight"].T) * (y @ w[at + "feed_forward.w3.weight"].T)
            x = x + inner @ w[at + "feed_forward.w2.weight"].T
        return rms_norm(x, w["norm.weight"])

    def record_caption(self, path, head, rows, scale, seed):
        g = torch.Generator().manual_seed(seed)
        codes = torch.randint(0, self.codes, (self.rows * self.columns,), generator=g)
        features = torch.randn(rows, self.weights["cls_embedding.uncond_embedding"].shape[1], generator=g)
        masked = self.places - rows
        padded = torch.cat([torch.zeros(masked, features.shape[1]), features])
        prefixes = [self.caption_rows(padded), self.caption_rows(self.weights["cls_embedding.uncond_embedding"])]
        out, drafted = [], []
        for prefix in prefixes:
            states = self.states(prefix, masked, codes)
            out.append(states[self.places - 1:])
            drafted.append(head.logits(self, states[masked:], codes))
        own, other = (part @ self.weights["output.weight"].T for part in out)
        write_safetensors(path, {
            "features": features, "codes": codes.int(), "scale": torch.tensor([scale]), "logits": own,
            "guide_logits": other, "guided": other + scale * (own - other), "final": out[0],
            "drafted": drafted[1] + scale * (drafted[0] - drafted[1]), "drafted_alone": drafted[0]})

    def lantern(self):
        """The weights as LANTERN's folders name them."""
        names = {"attention.wo": "self_attn.o_proj", "attention_norm": "input_layernorm",
                 "ffn_norm": "post_attention_layernorm", "feed_forward.w1": "mlp.gate_proj",
                 "feed_forward.w3": "mlp.up_proj", "feed_forward.w2": "mlp.down_proj",
                 "tok_embeddings": "embed_tokens"}
        renamed = {}
        for name, tensor in self.weights.items():
            if name == "output.weight":
                renamed["lm_head.weight"] = tensor
                continue
            for ours, theirs in names.items():
                name = name.replace(ours + ".weight", theirs + ".weight")
            if "attention.wqkv" not in name:
                renamed["model." + name] = tensor
                continue
            for part, rows in zip("qkv", tensor.split(self.hidden)):
                renamed["model." + name.replace("attention.wqkv", f"self_attn.{part}_proj")] = rows
        return renamed


class LanternHead:
    """LANTERN's drafter (arXiv:2410.03355): pairs of a row's feature and the token behind it, which turn by that
    token's cell; no norm of the input. It was trained with code 0 in place of each row of a caption. The published
    code runs pairs of masked rows, too, which are left out here."""

    def __init__(self, hidden, heads, width, codes, seed):
        g = torch.Generator().manual_seed(seed)
        d = hidden
        self.heads = heads
        self.w = {"embed_tokens.weight": ternary(g, codes, d, scale=0.5),
                  "fc.weight": ternary(g, d, 2 * d, scale=1 / math.sqrt(d)), "fc.bias": ternary(g, d, scale=0.2)}
        at = "layers.0."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            self.w[f"{at}self_attn.{name}.weight"] = ternary(g, d, d, scale=1.3 / math.sqrt(d))
        self.w[at + "mlp.gate_proj.weight"] = ternary(g, width, d, scale=1 / math.sqrt(d))
        self.w[at + "mlp.up_proj.weight"] = ternary(g, width, d, scale=1 / math.sqrt(d))
        self.w[at + "mlp.down_proj.weight"] = ternary(g, d, width, scale=1 / math.sqrt(width))
        self.w[at + "post_attention_layernorm.weight"] = near_one(g, d)

    def logits(self, target, states, codes):
        """Of the token behind each code but the last. states: of the caption's rows and the codes."""
        w, at = self.w, "layers.0."
        caption = len(states) - len(codes)  # pairs of its rows
        read = torch.cat([torch.zeros(caption, dtype=codes.dtype), codes[:-1]])
        embedded = w["embed_tokens.weight"][read]
        x = torch.cat([embedded, states[:len(embedded)]], -1) @ w["fc.weight"].T + w["fc.bias"]
        n, d = x.shape
        cos, sin = (part[:n, None, :] for part in target.turns(caption))
        q, k, v = (x @ w[f"{at}self_attn.{part}_proj.weight"].T for part in "qkv")
        q, k, v = (part.view(n, self.heads, d // self.heads) for part in (q, k, v))
        seen = attend(turn_pairs(q, cos, sin), turn_pairs(k, cos, sin), v, causal(n))
        x = x + seen @ w[at + "self_attn.o_proj.weight"].T
        y = rms_norm(x, w[at + "post_attention_layernorm.weight"], 1e-6)
        inner = F.silu(y @ w[at + "mlp.gate_proj.weight"].T) * (y @ w[at + "mlp.up_proj.weight"].T)
        x = x + inner @ w[at + "mlp.down_proj.weight"].T
        return x[caption:] @ target.weights["output.weight"].T


class LanguageDrawer:
    """A language model whose pictures are tokens of its texts' vocabulary (Chameleon, Lumina-mGPT), or which reads
    and draws codes through networks of their own (Janus)."""

    def __init__(self, hidden, layers, heads, width, tokens, seed, prefix="model.", head_norms=True, epsilon=1e-5):
        g = torch.Generator().manual_seed(seed)
        self.g, self.hidden, self.layers, self.heads, self.epsilon = g, hidden, layers, heads, epsilon
        self.prefix, self.head_norms = prefix, head_norms
        head = hidden // heads
        w = {prefix + "embed_tokens.weight": ternary(g, tokens, hidden, scale=0.5),
             prefix + "norm.weight": near_one(g, hidden)}
        for i in range(layers):
            at = f"{prefix}layers.{i}."
            for part in ("q_proj", "k_proj"):
                w[f"{at}self_attn.{part}.weight"] = ternary(g, hidden, hidden, scale=1.6 / math.sqrt(hidden))
            for part in ("v_proj", "o_proj"):
                w[f"{at}self_attn.{part}.weight"] = ternary(g, hidden, hidden, scale=1 / math.sqrt(hidden))
            w[at + "mlp.gate_proj.weight"] = ternary(g, width, hidden, scale=1 / math.sqrt(hidden))
            w[at + "mlp.up_proj.weight"] = ternary(g, width, hidden, scale=1 / math.sqrt(hidden))
            w[at + "mlp.down_proj.weight"] = ternary(g, hidden, width, scale=1 / math.sqrt(width))
            w[at + "input_layernorm.weight"] = near_one(g, hidden)
            w[at + "post_attention_layernorm.weight"] = near_one(g, hidden)
            if head_norms:
                for part in ("q_norm", "k_norm"):
                    w[f"{at}self_attn.{part}.weight"] = near_one(g, heads * head).view(heads, head)
                    w[f"{at}self_attn.{part}.bias"] = ternary(g, heads, head, scale=0.2)
        self.w = w

    def states(self, x):
        w, n, d = self.w, len(x), self.hidden
        head = d // self.heads
        angles = torch.arange(n).float().outer(1.0 / (10000 ** (torch.arange(0, head, 2).float() / head)))
        cos, sin = angles.cos()[:, None, :], angles.sin()[:, None, :]

        def normed(at, y):
            if not self.head_norms:
                return y
            return F.layer_norm(y, (head,), eps=1e-5) * w[at + ".weight"] + w[at + ".bias"]

        for i in range(self.layers):
            at = f"{self.prefix}layers.{i}."
            y = rms_norm(x, w[at + "input_layernorm.weight"], self.epsilon)
            q, k, v = ((y @ w[f"{at}self_attn.{part}_proj.weight"].T).view(n, self.heads, head) for part in "qkv")
            q = turn_halves(normed(at + "self_attn.q_norm", q), cos, sin)
            k = turn_halves(normed(at + "self_attn.k_norm", k), cos, sin)
            x = x + attend(q, k, v, causal(n)) @ w[at + "self_attn.o_proj.weight"].T
            y = rms_norm(x, w[at + "post_attention_layernorm.weight"], self.epsilon)
            inner = F.silu(y @ w[at + "mlp.gate_proj.weight"].T) * (y @ w[at + "mlp.up_proj.weight"].T)
            x = x + inner @ w[at + "mlp.down_proj.weight"].T
        return rms_norm(x, w[self.prefix + "norm.weight"], self.epsilon)

    def embed(self, tokens):
        return self.w[self.prefix + "embed_tokens.weight"][tokens]

    def record(self, path, prompt, guide, answer, answers, scale, embed_answer, output):
        """`answer` in the numbers that embed_answer takes; `answers` is what Talon calls them."""
        out = []
        for text in (prompt, guide):
            states = self.states(torch.cat([self.embed(torch.tensor(text)), embed_answer(answer[:-1])]))
            out.append(states[len(text) - 1:])
        own, other = output(out[0]), output(out[1])
        write_safetensors(path, {
            "prompt": torch.tensor(prompt, dtype=torch.int32), "guide": torch.tensor(guide, dtype=torch.int32),
            "codes": answers.int(), "scale": torch.tensor([scale]), "logits": own, "guide_logits": other,
            "guided": other + scale * (own - other), "final": out[0]})


def language_config(model_type, hidden, layers, heads, width, tokens, context):
    return {"model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": width, "vocab_size": tokens,
            "max_position_embeddings": context, "rms_norm_eps": 1e-5}


def letters(number):
    return "".join(chr(ord("A") + int(digit)) for digit in str(number))


def record_chameleon(folder, name, model_type, seed, row_ends):
    """Codes 4, 5, ... of the texts' vocabulary; the others are never drawn."""
    codes, tokens, rows, columns = 24, 40, 2, 4
    names = {"<s>": 0, "<racm3:break>": 30, "<reserved08706>": 31, "<reserved08799>": 32, "<reserved08800>": 33}
    names.update({f"IMGIMG{letters(code)}Z": 4 + code for code in range(codes)})
    config = language_config(model_type, 64, 2, 4, 96, tokens, 64)
    config.update({"grid": [rows, columns], "swin_norm": False, "vocabulary_map": names})
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    model = LanguageDrawer(64, 2, 4, 96, tokens, seed)
    model.w["lm_head.weight"] = ternary(model.g, tokens, 64, scale=2 / math.sqrt(64))
    write_safetensors(folder / name / "model.safetensors", model.w)
    g = torch.Generator().manual_seed(seed + 1)
    drawn = torch.randint(0, codes, (rows, columns), generator=g)
    if row_ends:
        ends = torch.full((rows, 1), codes)
        drawn = torch.cat([drawn, ends], 1).flatten()[:-1]
        sizes = [33 + rows // 2, 33 + columns // 2]
        prompt, guide = [0, 37, 38, 39, 31, 30] + sizes, [30] + sizes
        stored = list(range(4, 4 + codes)) + [32]
    else:
        drawn = drawn.flatten()
        prompt, guide = [0, 36, 39, 37, 31, 30], [0, 30]
        stored = list(range(4, 4 + codes))
    model.record(folder / name / "golden.safetensors", prompt, guide, torch.tensor(stored)[drawn], drawn, 3.0,
                 model.embed, lambda x: x @ model.w["lm_head.weight"][stored].T)


def record_janus(folder, seed):
    codes, tokens, rows, columns, inner = 24, 32, 3, 4, 48
    prefix = "language_model.model."
    config = {"model_type": "multi_modality", "grid": [rows, columns],
              "language_config": language_config("llama", 64, 2, 4, 96, tokens, 64)}
    (folder / "janus").mkdir(exist_ok=True)
    (folder / "janus/config.json").write_text(json.dumps(config, indent=1) + "\n")
    model = LanguageDrawer(64, 2, 4, 96, tokens, seed, prefix, head_norms=False)
    w, g = model.w, model.g
    w["gen_embed.weight"] = ternary(g, codes, 8, scale=0.7)
    for layer, width in ((0, 8), (2, 64)):
        w[f"gen_aligner.layers.{layer}.weight"] = ternary(g, 64, width, scale=1.5 / math.sqrt(width))
        w[f"gen_aligner.layers.{layer}.bias"] = ternary(g, 64, scale=0.2)
    w["gen_head.output_mlp_projector.weight"] = ternary(g, inner, 64, scale=1.5 / math.sqrt(64))
    w["gen_head.output_mlp_projector.bias"] = ternary(g, inner, scale=0.2)
    w["gen_head.vision_head.weight"] = ternary(g, codes, inner, scale=2 / math.sqrt(inner))
    w["gen_head.vision_head.bias"] = ternary(g, codes, scale=0.2)
    write_safetensors(folder / "janus/model.safetensors", w)

    def linear(name, x):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def aligned(drawn):
        return linear("gen_aligner.layers.2", F.gelu(linear("gen_aligner.layers.0", w["gen_embed.weight"][drawn])))

    def output(x):
        return linear("gen_head.vision_head", F.gelu(linear("gen_head.output_mlp_projector", x)))

    drawn = torch.randint(0, codes, (rows * columns,), generator=torch.Generator().manual_seed(seed + 1))
    prompt = [1, 8, 9, 10, 30]
    model.record(folder / "janus/golden.safetensors", prompt, [1, 2, 2, 2, 30], drawn, drawn, 5.0, aligned, output)


def record_captions(folder):
    captions = CaptionDrawer(places=10, caption_width=24, hidden=128, layers=2, heads=2, width=64, codes=48, rows=4,
                             columns=4, seed=11)
    low = {name: tensor.bfloat16() if tensor.dim() == 2 else tensor for name, tensor in captions.weights.items()}
    captions.weights = {name: tensor.float() for name, tensor in low.items()}
    head = LanternHead(hidden=128, heads=2, width=64, codes=48, seed=12)
    torch.save(low, folder / "t2i_256.pt")
    captions.record_caption(folder / "t2i.golden.safetensors", head, rows=6, scale=3.0, seed=13)
    for name in ("lantern", "lantern_head"):
        (folder / name).mkdir(exist_ok=True)
    write_safetensors(folder / "lantern/model.safetensors", captions.lantern())
    config = {"model_type": "llamagen_t2i", "vocab_size": 48, "hidden_size": 128, "num_hidden_layers": 2,
              "num_attention_heads": 2, "rms_norm_eps": 1e-5, "block_size": 16, "cls_token_num": 10,
              "rope_base": 10000, "caption_dim": 24, "input_type": "t2i"}
    (folder / "lantern/config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "lantern_head/model.safetensors", head.w)
    config = {"vocab_size": 48, "hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
              "intermediate_size": 64, "rms_norm_eps": 1e-6, "bias": True}
    (folder / "lantern_head/config.json").write_text(json.dumps(config, indent=1) + "\n")


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
    codebook = "quantize.embedding.weight"
    write_safetensors(folder / "words/vq.safetensors", {**decoder.w, codebook: decoder.w[codebook][:words.codes]})
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
    record_encoders(folder)
    record_captions(folder)
    record_chameleon(folder, "anole", "chameleon", seed=21, row_ends=False)
    record_chameleon(folder, "lumina", "chameleon_xllmx", seed=31, row_ends=True)
    record_janus(folder, seed=41)
    for pattern in ("*.pt", "*.safetensors", "*/*.safetensors"):
        for path in sorted(folder.glob(pattern)):
            compress(path)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
