"""The target of train_eagle3_cuda.py: a llama model of a GGUF file, which answers many prompts at once and gives its streams."""
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

MASKED = -1e30


def rms(x: Tensor, weight: Tensor, epsilon: float, low: torch.dtype) -> Tensor:
    return F.rms_norm(x.float(), x.shape[-1:], weight, epsilon).to(low)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: pairs (i, i + d/2) of x [..., heads, d]; cos and sin [..., 1, d/2]."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Target:
    """The frozen model, dequantized. Streams are float32, products and caches of `low`."""

    def __init__(self, path: Path, device: str) -> None:
        self.low = torch.bfloat16 if device == "cuda" else torch.float32
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        kind = self.fields["general.architecture"]
        if kind != "llama" or self.fields.get("tokenizer.ggml.pre") != "smollm":
            raise SystemExit(f"{path}: expected a llama model with the tokenizer smollm, found {kind}, {self.fields.get('tokenizer.ggml.pre')}")
        of = lambda name: self.fields["llama." + name]
        self.hidden, self.heads, self.kv_heads = of("embedding_length"), of("attention.head_count"), of("attention.head_count_kv")
        self.layers, self.epsilon = of("block_count"), of("attention.layer_norm_rms_epsilon")
        self.d, self.group = self.hidden // self.heads, self.heads // self.kv_heads
        tensors = {t.name: t for t in reader.tensors}

        def whole(name: str) -> Tensor:
            tensor = tensors[name]
            values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape][::-1])
            return torch.from_numpy(values.astype(np.float32)).to(device)

        def halves(name: str, heads: int) -> Tensor:  # a file has the pairs that turn beside each other
            return whole(name).view(heads, self.d // 2, 2, -1).transpose(1, 2).reshape(heads * self.d, -1)

        self.embedding = whole("token_embd.weight").to(self.low)
        self.norm = whole("output_norm.weight")
        self.blocks = []
        for i in range(self.layers):
            of_block = lambda name, i=i: whole(f"blk.{i}.{name}.weight")
            qkv = [halves(f"blk.{i}.attn_q.weight", self.heads), halves(f"blk.{i}.attn_k.weight", self.kv_heads), of_block("attn_v")]
            self.blocks.append({
                "attn_norm": of_block("attn_norm"), "ffn_norm": of_block("ffn_norm"), "qkv": torch.cat(qkv).to(self.low),
                "o": of_block("attn_output").to(self.low), "down": of_block("ffn_down").to(self.low),
                "gate_up": torch.cat([of_block("ffn_gate"), of_block("ffn_up")]).to(self.low)})
        exponents = -torch.arange(0, self.d, 2, device=device, dtype=torch.float64) / self.d
        angles = torch.arange(4096, device=device, dtype=torch.float64)[:, None] * float(of("rope.freq_base")) ** exponents
        self.cos, self.sin = angles.cos().to(self.low), angles.sin().to(self.low)

    def attention_input(self, block: dict[str, Tensor], x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both = rms(x, block["attn_norm"], self.epsilon, self.low) @ block["qkv"].T
        q, k, v = both.split([self.hidden, self.kv_heads * self.d, self.kv_heads * self.d], -1)
        heads = lambda y: y.view(*y.shape[:-1], -1, self.d)
        return turned(heads(q), cos, sin), turned(heads(k), cos, sin), heads(v)

    def after_attention(self, block: dict[str, Tensor], x: Tensor, attended: Tensor) -> Tensor:
        x = x + (attended @ block["o"].T).float()
        gate, up = (rms(x, block["ffn_norm"], self.epsilon, self.low) @ block["gate_up"].T).chunk(2, -1)
        return x + ((F.silu(gate) * up) @ block["down"].T).float()

    def attend(self, q: Tensor, k: Tensor, v: Tensor, **mask: object) -> Tensor:
        wide = lambda y: y.transpose(1, 2).repeat_interleave(self.group, 1)
        return F.scaled_dot_product_attention(q.transpose(1, 2), wide(k), wide(v), **mask).transpose(1, 2).flatten(2)

    @torch.no_grad()
    def streams(self, tokens: Tensor, taps: list[int]) -> tuple[Tensor, Tensor]:
        """Of tokens [texts, places], padded at the right: the streams that enter the layers `taps`, side by side, and the final vectors."""
        x, kept = self.embedding[tokens].float(), []
        cos, sin = self.cos[: tokens.shape[1], None], self.sin[: tokens.shape[1], None]
        for i, block in enumerate(self.blocks):
            if i in taps:
                kept.append(x)
            q, k, v = self.attention_input(block, x, cos, sin)
            x = self.after_attention(block, x, self.attend(q, k, v, is_causal=True))
        return torch.cat(kept, -1), rms(x, self.norm, self.epsilon, self.low)

    def fill(self, prompts: Tensor, padding: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Runs prompts [texts, places], padded at the left, into the caches [layers, texts, kv_heads, places, d]. Their last final vectors."""
        place = torch.arange(prompts.shape[1], device=prompts.device)
        own = (place - padding[:, None]).clamp(min=0)
        cos, sin = self.cos[own][:, :, None], self.sin[own][:, :, None]
        visible = (place[None] <= place[:, None]) & (place[None, None] >= padding[:, None, None])
        visible = (visible | torch.eye(len(place), dtype=torch.bool, device=place.device))[:, None]
        x = self.embedding[prompts].float()
        for i, block in enumerate(self.blocks):
            q, k, v = self.attention_input(block, x, cos, sin)
            keys[i, :, :, : len(place)], values[i, :, :, : len(place)] = k.transpose(1, 2), v.transpose(1, 2)
            x = self.after_attention(block, x, self.attend(q, k, v, attn_mask=visible))
        return rms(x[:, -1], self.norm, self.epsilon, self.low)

    def forward_one(self, tokens: Tensor, padding: Tensor, place: int, keys: Tensor, values: Tensor) -> Tensor:
        """The final vectors of one more token of each text, which goes to `place` of the caches."""
        cos, sin = self.cos[place - padding][:, None], self.sin[place - padding][:, None]
        hidden = torch.arange(place + 1, device=padding.device) < padding[:, None]
        x = self.embedding[tokens].float()
        for i, block in enumerate(self.blocks):
            q, keys[i, :, :, place], values[i, :, :, place] = self.attention_input(block, x, cos, sin)
            grouped = q.view(len(tokens), self.kv_heads, self.group, self.d) * self.d**-0.5
            scores = (grouped @ keys[i, :, :, : place + 1].transpose(-1, -2)).float().masked_fill(hidden[:, None, None], MASKED)
            attended = scores.softmax(-1).to(self.low) @ values[i, :, :, : place + 1]
            x = self.after_attention(block, x, attended.reshape(len(tokens), -1))
        return rms(x, self.norm, self.epsilon, self.low)

    @torch.no_grad()
    def answers(self, prompts: list[np.ndarray], temperatures: Tensor, most: int, end: int) -> list[np.ndarray]:
        """Drawn at their temperatures (0: the likeliest), until `end`, which is kept, or `most` tokens."""
        device, texts, longest = self.embedding.device, len(prompts), max(map(len, prompts))
        padding = torch.tensor([longest - len(p) for p in prompts], device=device)
        tokens = torch.from_numpy(np.stack([np.pad(p, (longest - len(p), 0)) for p in prompts])).to(device)
        keys = torch.zeros(self.layers, texts, self.kv_heads, longest + most, self.d, dtype=self.low, device=device)
        values, rows = torch.zeros_like(keys), max(1, min(256, 120_000 // longest))
        parts = [slice(i, i + rows) for i in range(0, texts, rows)]
        final = torch.cat([self.fill(tokens[p], padding[p], keys[:, p], values[:, p]) for p in parts])
        out = torch.full((texts, most), end, device=device)
        alive, noise_scale = torch.arange(texts, device=device), temperatures.to(device)[:, None]
        done = torch.zeros(texts, dtype=torch.bool, device=device)
        for n in range(most):
            logits = (final @ self.embedding.T).float()
            noise = torch.empty_like(logits).exponential_().log_().neg_()
            new = torch.addcmul(logits, noise, noise_scale).argmax(-1).masked_fill(done, end)
            out[alive, n] = new
            done = done | (new == end)
            if n % 24 == 23:
                going = (~done).nonzero()[:, 0]
                if len(going) == 0:
                    break
                if len(going) < 0.85 * len(done):  # the others leave the caches
                    keys, values, alive, noise_scale = keys[:, going], values[:, going], alive[going], noise_scale[going]
                    new, done, padding = new[going], done[going], padding[going]
            if n + 1 < most:
                final = self.forward_one(new, padding, longest + n, keys, values)
        return [row[: int((row == end).argmax()) + 1] if (row == end).any() else row for row in out.cpu().numpy()]
