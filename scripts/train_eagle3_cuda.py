#!/usr/bin/env python3
"""Goes on training an EAGLE-3 head on a graphics card: the target answers prompts there, then the head learns from its streams, which are
computed anew for each batch and never stored. How the ninth run of SmolLM2's head was made (models/smollm2-eagle3/README.md); for other
targets, and without a card, `talon train data` and `talon train head` do the same from recorded answers (docs/training.md).

usage: train_eagle3_cuda.py --model SmolLM2.gguf --start HEAD --prompts FILE.jsonl... --out FOLDER
HEAD: a folder as `talon train head` writes it. FOLDER/head is one, too; `talon convert FOLDER/head -m smollm2 --shared-output` makes a GGUF.
Needs the packages torch, gguf, tokenizers and safetensors. Models of the llama architecture with SmolLM2's tokenizer only.
"""
import argparse
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor

from cuda_target import MASKED, Target, rms, turned

STEPS = 5  # unrolled in training-time test
DECAY = 0.8  # of a step's weight beside the one before
ROWS = 8192  # of logits at a time
BEGIN = time.time()
Answer = tuple[np.ndarray, int]  # tokens of prompt and answer, and how many are the prompt's


def log(*parts: object) -> None:
    print(f"[{time.time() - BEGIN:7.1f} s]", *parts, flush=True)


class Prompts:
    """Texts in the model's chat template, and those that it writes itself as a user."""

    def __init__(self, fields: dict[str, object]) -> None:
        vocabulary = {text: i for i, text in enumerate(fields["tokenizer.ggml.tokens"])}
        merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
        self.tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
        control = [text for text, kind in zip(vocabulary, fields["tokenizer.ggml.token_type"]) if kind == 3]
        self.tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
        system = re.search(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", fields["tokenizer.chat_template"], re.S)
        self.before = self.ids((system.group(0) + "\n" if system else "") + "<|im_start|>user\n")
        self.after = self.ids("<|im_end|>\n<|im_start|>assistant\n")

    def ids(self, text: str) -> np.ndarray:
        return np.array(self.tokenizer.encode(text, add_special_tokens=False).ids, np.int64)

    def of(self, user: np.ndarray) -> np.ndarray:
        return np.concatenate([self.before, user, self.after])

    def read(self, files: list[Path], held_out: Path | None, most: int) -> list[np.ndarray]:
        """Every prompt once, but for those of more than `most` tokens or with 13 words of a held-out question."""
        def runs(text: str) -> set[tuple[str, ...]]:
            words = re.findall(r"\w+", text.lower())
            return {tuple(words[i : i + 13]) for i in range(len(words) - 12)}

        asked = set()
        if held_out:
            asked = set().union(*(runs(turn) for line in held_out.open() for turn in json.loads(line)["turns"]))
        texts = {json.loads(line)["prompt"]: None for file in files for line in lines_of(file)}
        prompts = [self.of(self.ids(text)) for text in texts if not runs(text) & asked]
        return [p for p in prompts if len(p) <= most]


def lines_of(file: Path) -> list[str]:
    packed = file.suffix == ".zst"
    text = subprocess.run(["zstd", "-dc", file], check=True, capture_output=True).stdout if packed else file.read_bytes()
    return [line for line in text.decode().split("\n") if line]


def mixed_temperatures(count: int, random: np.random.Generator) -> Tensor:
    """0:0.35,0.3:0.1,0.6-0.8:0.2,0.9-1:0.35, as --temperature-mix of `talon train data` says it."""
    which, where = random.random(count), random.random(count)
    drawn = np.select([which < 0.35, which < 0.45, which < 0.65], [0 * where, 0 * where + 0.3, 0.6 + 0.2 * where], 0.9 + 0.1 * where)
    return torch.tensor(drawn, dtype=torch.float32)


def groups_of(prompts: list[np.ndarray], texts: int, places: int, most: int, random: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """All prompts, those of like length together, as many as the caches hold."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]) + 8 * random.random())
    groups, group = [], []
    for i in order:
        if group and (len(group) == texts or (len(prompts[i]) + most) * (len(group) + 1) > places):
            groups.append(group)
            group = []
        group.append(prompts[i])
    groups.append(group)
    for i in random.permutation(len(groups)):
        yield groups[i]


def answer_all(target: Target, prompts: Prompts, known: list[np.ndarray], options: argparse.Namespace,
               random: np.random.Generator) -> list[Answer]:
    """Answers to all prompts in turn, for as long as the options say."""
    end, began, answered = int(target.fields["tokenizer.ggml.eos_token_id"]), time.time(), []
    for first in range(0, options.own_prompts, options.texts):
        count = min(options.texts, options.own_prompts - first)
        own = target.answers([prompts.before] * count, torch.ones(count), 96, end)
        known = known + [prompts.of(text[:-1]) for text in own if text[-1] == end and len(text) > 5]
    log(len(known), "prompts")
    while True:
        for group in groups_of(known, options.texts, options.places, options.most, random):
            temperatures = mixed_temperatures(len(group), random)
            for prompt, answer in zip(group, target.answers(group, temperatures, options.most, end)):
                if len(answer) > 3:
                    answered.append((np.concatenate([prompt, answer]), len(prompt)))
            spent, tokens = time.time() - began, sum(len(text) - begin for text, begin in answered)
            log(f"{len(answered)} answers, {tokens / 1e6:.2f} M tokens, {tokens / spent:.0f} tokens/s")
            if spent > options.answer_seconds:
                return answered


class SoftCrossEntropy(torch.autograd.Function):
    """Of predictions h [rows, hidden] with p[index], both over the drafted tokens, whose output rows are frozen; summed, times scale."""

    @staticmethod
    def forward(ctx, h: Tensor, output: Tensor, p: Tensor, index: Tensor, scale: float, right: list[float] | None) -> Tensor:
        loss, gradient, same = torch.zeros((), device=h.device), torch.empty_like(h), torch.zeros((), device=h.device)
        for begin in range(0, len(h), ROWS):
            part = slice(begin, begin + ROWS)
            logits, wanted = (h[part] @ output.T).float(), p[index[part]]
            total = logits.logsumexp(-1)
            loss += total.sum() - (wanted * logits).sum()
            if right is not None:
                same += (logits.argmax(-1) == wanted.argmax(-1)).sum()
            gradient[part] = ((logits - total[:, None]).exp_().sub_(wanted).to(h.dtype) @ output) * scale
        if right is not None:
            right.append(float(same) / len(h))
        ctx.save_for_backward(gradient)
        return loss * scale

    @staticmethod
    def backward(ctx, outer: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0] * outer, None, None, None, None, None


class Batch:
    """Answers, padded: pair i of a text is (target row i, token i + 1) and predicts token i + 2; pairs whose prediction is of the answer are
    queries [texts, most]."""

    def __init__(self, target: Target, answers: list[Answer], taps: list[int], output: Tensor) -> None:
        device, places = target.embedding.device, -(-max(len(text) for text, _ in answers) // 32) * 32
        self.tokens = torch.from_numpy(np.stack([np.pad(text, (0, places - len(text))) for text, _ in answers])).to(device)
        length, begin = (torch.tensor(n, device=device) for n in zip(*((len(text), first) for text, first in answers)))
        count = length - begin - 1
        self.queries, self.most = int(count.sum()), int(count.max())
        rank = torch.arange(self.most, device=device)
        self.pair = torch.minimum(begin[:, None] - 1 + rank, length[:, None] - 3)
        self.hidden = torch.arange(places, device=device) > self.pair[:, :, None]
        self.taps, final = target.streams(self.tokens, taps)
        real = (rank < count[:, None]).flatten().nonzero()[:, 0]
        row_of = torch.zeros(self.pair.numel(), dtype=torch.long, device=device)
        row_of[real] = torch.arange(len(real), device=device)
        wanted = final.gather(1, (self.pair + 1)[:, :, None].expand(-1, -1, target.hidden)).flatten(0, 1)[real]
        self.p = torch.cat([(part @ output.T).float().softmax(-1).to(target.low) for part in wanted.split(ROWS)])
        self.steps = []  # of each unrolled step: the queries that still have something to predict, and the rows of p they shall
        for step in range(STEPS):
            left = (rank + step < count[:, None]).flatten().nonzero()[:, 0]
            self.steps.append((left, row_of[left + step]))


class Head:
    """An EAGLE-3 head (arXiv:2503.01840) with its optimiser: AdamW as the paper's, an average of the weights, which is what is saved."""

    NAMES = {"q": "midlayer.self_attn.q_proj", "k": "midlayer.self_attn.k_proj", "v": "midlayer.self_attn.v_proj",
             "o": "midlayer.self_attn.o_proj", "gate": "midlayer.mlp.gate_proj", "up": "midlayer.mlp.up_proj",
             "down": "midlayer.mlp.down_proj", "fc": "fc", "post_norm": "midlayer.post_attention_layernorm",
             "embedding_norm": "midlayer.input_layernorm", "feature_norm": "midlayer.hidden_norm", "output_norm": "norm"}

    def __init__(self, folder: Path, target: Target, rate: float) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.taps, self.target, self.rate, self.iterations = self.config["tap_layers"], target, rate, 0
        files = load_file(folder / "model.safetensors")
        self.values = {name: files[file + ".weight"].float().to(target.embedding.device).requires_grad_() for name, file in self.NAMES.items()}
        # Taps differ in size: fc learns with each divided by its own, the last one's being the stream's. The file has it of unscaled taps.
        self.sizes: Tensor | None = None
        self.average = {name: value.detach().clone() for name, value in self.values.items()}
        self.optimizer = torch.optim.AdamW(self.values.values(), lr=rate, betas=(0.9, 0.95), weight_decay=0)

    def measure_taps(self, batch: Batch) -> None:
        rms_of = [float(tap.square().mean().sqrt()) for tap in batch.taps.chunk(len(self.taps), -1)]
        width = self.target.hidden
        self.sizes = torch.cat([torch.full((width,), size / rms_of[-1]) for size in rms_of]).to(batch.taps.device)
        with torch.no_grad():
            for values in (self.values["fc"], self.average["fc"]):
                values.mul_(self.sizes)

    def loss(self, batch: Batch, output: Tensor, right: list[float] | None) -> Tensor:
        """Training-time test: step j reads the outputs of step j - 1; a query sees the pairs of the text up to its own and, of each later
        step, the row at its own place."""
        t, low = self.target, self.target.low
        w = {name: value.to(low) if value.dim() > 1 else value for name, value in self.values.items()}
        (texts, places), most, d = batch.tokens.shape, batch.most, t.d
        norm = lambda x, name: rms(x, w[name], t.epsilon, low)
        inputs = lambda tokens, stream: torch.cat([norm(t.embedding[tokens], "embedding_norm"), norm(stream, "feature_norm")], -1)
        key_value = lambda x, cos, sin: (turned((x @ w["k"].T).view(*x.shape[:2], -1, d), cos, sin), (x @ w["v"].T).view(*x.shape[:2], -1, d))

        stream = ((batch.taps / self.sizes).to(low) @ w["fc"].T).float()
        x = inputs(batch.tokens.roll(-1, 1), stream)
        k, v = (y.transpose(1, 2).contiguous() for y in key_value(x, t.cos[:places, None], t.sin[:places, None]))
        of_queries = lambda y: y.gather(1, batch.pair[:, :, None].expand(-1, -1, y.shape[-1]))
        x, stream = of_queries(x), of_queries(stream)
        later, total = [], torch.zeros((), device=x.device)
        for step, (left, wanted) in enumerate(batch.steps):
            if len(left) == 0:
                break
            cos, sin = t.cos[batch.pair + step][:, :, None], t.sin[batch.pair + step][:, :, None]
            if step > 0:
                x = inputs(batch.tokens.gather(1, (batch.pair + 1 + step).clamp(max=places - 1)), stream)
                later.append(key_value(x, cos, sin))
            q = turned((x @ w["q"].T).view(texts, most, t.heads, d), cos, sin) * d**-0.5
            q = q.view(texts, most, t.kv_heads, t.group, d).permute(0, 2, 3, 1, 4)
            flat = lambda y: y.reshape(texts, t.kv_heads, t.group * most, -1)
            scores = (flat(q) @ k.transpose(-1, -2)).view(texts, t.kv_heads, t.group, most, places)
            own = [(q * key.transpose(1, 2)[:, :, None]).sum(-1, keepdim=True) for key, _ in later]
            scores = torch.cat([scores.masked_fill(batch.hidden[:, None, None], MASKED), *own], -1)
            weights = scores.float().softmax(-1).to(low)
            attended = (flat(weights[..., :places]) @ v).view(texts, t.kv_heads, t.group, most, d)
            for n, (_, value) in enumerate(later):
                attended = attended + weights[..., places + n, None] * value.transpose(1, 2)[:, :, None]
            stream = stream + (attended.permute(0, 3, 1, 2, 4).reshape(texts, most, -1) @ w["o"].T).float()
            normed = norm(stream, "post_norm")
            stream = stream + ((F.silu(normed @ w["gate"].T) * (normed @ w["up"].T)) @ w["down"].T).float()
            h = norm(stream.flatten(0, 1)[left], "output_norm")
            total = total + SoftCrossEntropy.apply(h, output, batch.p, wanted, DECAY**step / batch.queries, right)
        return total

    def learn(self, loss: Tensor, share: float) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.values.values(), 1.0)
        self.iterations += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share * min(1, self.iterations / 100)
        self.optimizer.step()
        self.optimizer.zero_grad()
        kept = min(0.998, self.iterations / (self.iterations + 10))
        with torch.no_grad():
            for name, value in self.values.items():
                self.average[name].lerp_(value, 1 - kept)

    def save(self, folder: Path, drafted: Tensor, facts: dict[str, object]) -> None:
        """In the layout of the folder that it began with."""
        fit = lambda value: value.detach().to("cpu", torch.float16).contiguous()
        tensors = {self.NAMES[name] + ".weight": fit(value / self.sizes if name == "fc" else value) for name, value in self.average.items()}
        tensors["lm_head.weight"] = fit(self.target.embedding[drafted])
        ids = drafted.cpu()
        tensors["d2t"] = ids - torch.arange(len(ids))
        tensors["t2d"] = torch.zeros(len(self.target.embedding), dtype=torch.bool).index_fill_(0, ids, True)
        origin = {name: value for name, value in self.config["talon"].items() if name.startswith(("target", "tap"))}
        config = self.config | {"draft_vocab_size": len(ids), "talon": origin | facts}
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "model.safetensors.part", {"format": "pt"})
        (folder / "model.safetensors.part").replace(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def batches_of(answers: list[Answer], queries: int, random: np.random.Generator) -> Iterator[list[Answer]]:
    """Epoch after epoch, answers of like lengths together."""
    while True:
        like = lambda answer: (answer[1] // 64, len(answer[0]) - answer[1] + 60 * random.random())
        batches, batch, held = [], [], 0
        for answer in sorted(answers, key=like):
            count = len(answer[0]) - answer[1] - 1
            if batch and (held + count > queries or (len(batch) + 1) * len(answer[0]) > 4 * queries):
                batches.append(batch)
                batch, held = [], 0
            batch.append(answer)
            held += count
        for i in random.permutation(len(batches)):
            yield batches[i]


def train(target: Target, head: Head, answers: list[Answer], drafted: Tensor, options: argparse.Namespace,
          random: np.random.Generator) -> None:
    output, pairs, began, saved = target.embedding[drafted], 0, time.time(), time.time()
    facts = {"conversations": len(answers), "response_tokens": sum(len(text) - begin for text, begin in answers)}
    for chosen in batches_of(answers, options.queries, random):
        progress = min(1, (time.time() - began) / options.train_seconds)
        batch = Batch(target, chosen, head.taps, output)
        if head.sizes is None:
            head.measure_taps(batch)
        right = [] if head.iterations % 100 == 0 else None
        loss = head.loss(batch, output, right)
        head.learn(loss, 1 - progress)
        pairs += batch.queries
        if right is not None:
            rate = pairs / (time.time() - began)
            log(f"{pairs / 1e6:.2f} M pairs, {rate:.0f} pairs/s, {100 * progress:.0f} %, loss {loss.item():.3f}, right",
                *(f"{share:.3f}" for share in right))
        if progress == 1 or time.time() - saved > 100:
            head.save(options.out / "head", drafted, facts | {"pairs_trained": pairs, "iterations": head.iterations, "rate": options.rate})
            saved = time.time()
        if progress == 1:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="as of `talon train data`, .jsonl or .jsonl.zst")
    parser.add_argument("--held-out", type=Path, help="questions that the head is measured on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--own-prompts", type=int, default=9000, help="that the target is asked to write")
    parser.add_argument("--most", type=int, default=256, help="tokens of an answer")
    parser.add_argument("--most-prompt", type=int, default=700)
    parser.add_argument("--texts", type=int, default=3072, help="answered at once")
    parser.add_argument("--places", type=int, default=1_300_000, help="of all caches: 23 kB each for SmolLM2-135M, for a moment twice")
    parser.add_argument("--answer-seconds", type=float, default=195)
    parser.add_argument("--train-seconds", type=float, default=925)
    parser.add_argument("--queries", type=int, default=20_000, help="of a batch")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--draft-vocab", type=int, default=12_288)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    random = np.random.default_rng(options.seed)
    target = Target(options.model, options.device)
    head = Head(options.start, target, options.rate)
    prompts = Prompts(target.fields)
    known = prompts.read(options.prompts, options.held_out, options.most_prompt)
    if not known:
        raise SystemExit(f"--prompts: expected some of at most {options.most_prompt} tokens that are not held out, found none")
    answers = answer_all(target, prompts, known, options, random)
    counts = np.bincount(np.concatenate([text[begin:] for text, begin in answers]), minlength=len(target.embedding))
    drafted = torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[: options.draft_vocab])).to(target.embedding.device)
    train(target, head, answers, drafted, options, random)


if __name__ == "__main__":
    main()
