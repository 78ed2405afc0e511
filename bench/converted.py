"""Models that Talon converts to GGUF, in Talon and in llama.cpp: the same answers from source and conversion in Talon, the same
log-probabilities, within a tolerance, in llama.cpp.

usage: bench/converted.py TALON PEER_FOLDER [SOURCE...] [--tokens 12] [--tiny] [--only NAME]

PEER_FOLDER holds llama-server (scripts/llama_cpp.sh fetches it); where it is not there the check is skipped. SOURCE: models to convert;
without any, the tiny models of tests/data and of bench/tiny_folders.py, and the models in downloads. Tiny models are converted to
float32, since llama.cpp rounds the inputs of bf16 matrices, others as they are. For each: Talon's greedy tokens from both files must be the same, and llama.cpp's
log-probability of each of them, given those before it, is compared with Talon's. One line of JSON for each model; exit status 1 if any
fails.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import tiny_folders

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/data/golden"
PROMPT = [1, 5, 9, 20, 14, 31, 7, 2 + 16, 11, 26, 40, 8, 33, 21, 6, 12]
SPECIAL = ("<unk>", "<s>", "</s>", "<|endoftext|>")
# What llama.cpp computes otherwise is taken out of the tiny models: it has no windows of Llama-like ones and of EXAONE 4 with other than
# 64 layers, rounds YaRN's ramp of gpt-oss, and takes Llama 4's chunks and query factors for constants.
CHANGES = {"mistral_window": {"sliding_window": None}, "qwen2_window": {"use_sliding_window": False}, "starcoder2": {"sliding_window": None},
           "gpt_oss": {"rope_scaling": None}, "llama4": {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1},
           "exaone4": {"sliding_window": None, "layer_types": None}}
# Largest differences of log-probabilities: of tiny models in float32 (GELU comes from a table of half floats there), of real ones (whose
# 8-bit inputs are rounded otherwise).
TINY, REAL = 0.01, 0.6


def talon(program: str, *words: str) -> dict:
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout) if done.stdout.startswith("{") else {}


def unpacked(packed: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A folder of tests/data as its makers publish it, with a tokenizer, without which llama.cpp does not answer."""
    place = folder / packed.name
    place.mkdir()
    for file in packed.iterdir():
        if file.suffix == ".zst" and file.name.startswith("model.safetensors"):
            subprocess.run(["zstd", "-dq", str(file), "-o", str(place / file.stem)], check=True)
        elif file.name in ("config.json", "model.safetensors"):
            (place / file.name).write_bytes(file.read_bytes())
    config = json.loads((place / "config.json").read_text())
    text = config.get("text_config", config)
    text.update(CHANGES.get(packed.name, {}))
    (place / "config.json").write_text(json.dumps(config))
    rows = text["vocab_size"]
    letters = {chr(0x4E00 + i): i for i in range(len(SPECIAL), rows)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [{"id": i, "content": text, "special": True, **plain} for i, text in enumerate(SPECIAL)]
    model = {"type": "BPE", "vocab": {**{token["content"]: token["id"] for token in special}, **letters}, "merges": []}
    pre_tokenizer = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (place / "tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "added_tokens": special, "pre_tokenizer": pre_tokenizer, "model": model}))
    return place


class Peer:
    def __init__(self, folder: pathlib.Path, model: pathlib.Path, tiny: bool):
        exact = ["-ctk", "f32", "-ctv", "f32", "-fa", "off"] if tiny else []
        self.log = tempfile.NamedTemporaryFile("w+")
        self.port = 18000 + os.getpid() % 2000
        self.process = subprocess.Popen(
            [str(folder / "llama-server"), "-m", str(model), "--port", str(self.port), "-c", "512", "-np", "1", "--no-warmup", *exact],
            env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, stdout=self.log, stderr=self.log)

    def __enter__(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise RuntimeError(f"llama.cpp does not load it: {self.complaint()}")
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200:
                    return self
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise RuntimeError("llama.cpp was not ready within a minute")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def complaint(self) -> str:
        self.log.seek(0)
        lines = [line.strip() for line in self.log if "error" in line.lower() or "failed" in line.lower()]
        return lines[0] if lines else "no reason given"

    def next_token(self, ids: list[int]) -> list[dict]:
        """The likeliest tokens behind `ids` with their log-probabilities. Streamed: the whole answer would have to be text."""
        body = {"prompt": ids, "n_predict": 1, "temperature": 0, "cache_prompt": False, "n_probs": 40, "stream": True, "ignore_eos": False}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            for line in reply:
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    if event.get("completion_probabilities"):
                        return event["completion_probabilities"][0]["top_logprobs"]
        raise RuntimeError("llama.cpp gave no probabilities")


def answer(program: str, model: str, count: int, tiny: bool, models: str) -> list[int]:
    exact = ["--backend", "reference", "--kv", "f32"] if tiny else ["--activations", "16"]
    return talon(program, "run", "-m", model, "--models", models, "--prompt-ids", ",".join(map(str, PROMPT)), "-n", str(count), "-d", "none",
                 "--json", *exact)["tokens"]


def losses(program: str, model: str, ids: list[int], tiny: bool) -> list[float]:
    exact = ["--backend", "reference", "--kv", "f32"] if tiny else ["--activations", "16", "--kv", "f16"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(",".join(map(str, ids)))
        file.flush()
        return talon(program, "score", "-m", model, "-f", file.name, "--ids", "--json", *exact)["nll"]


def check(program: str, peer: pathlib.Path, source: str, tiny: bool, count: int, folder: pathlib.Path) -> dict:
    name = pathlib.Path(source).stem
    file = folder / f"{name}.gguf"
    models = str(ROOT / "downloads")
    same = folder / f"{name}.same.gguf"
    talon(program, "convert", source, "--models", models, "-o", str(same))
    tokens = answer(program, source, count, tiny, models)
    line = {"model": name, "tokens": len(tokens), "same": tokens == answer(program, str(same), count, tiny, models)}
    if tiny:
        talon(program, "convert", source, "-o", str(file), "--type", "f32")
    else:
        file = same
    ids = PROMPT + tokens
    nll = losses(program, str(file), ids, tiny)[-len(tokens):]
    differences, missed = [], 0
    with Peer(peer, file, tiny) as server:
        for i, token in enumerate(tokens):
            likeliest = server.next_token(ids[:len(PROMPT) + i])
            found = next((one["logprob"] for one in likeliest if one["id"] == token), None)
            differences.append(abs(found + nll[i]) if found is not None else 99.0)  # not among the likeliest
            missed += likeliest[0]["id"] != token
    bound = TINY if tiny else REAL
    line |= {"peer_difference": round(max(differences), 5), "bound": bound, "peer_other_tokens": missed}
    line["ok"] = line["same"] and missed == 0 and max(differences) <= bound
    return line


def recorded_folders() -> list[pathlib.Path]:
    found = [path.parent for path in sorted(GOLDEN.glob("families/*/config.json"))]
    return found + [path.parent for path in sorted(GOLDEN.glob("makers/*/config.json"))] + [
        path.parent for path in sorted(GOLDEN.glob("quantized/*/config.json"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talon")
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--tiny", action="store_true", help="the tiny models alone")
    parser.add_argument("--only", default="", help="of the tiny models this one")
    args = parser.parse_args()
    if not (args.peer / "llama-server").exists():
        print(f"converted.py: skipped, there is no llama-server in {args.peer} (scripts/llama_cpp.sh fetches it)", file=sys.stderr)
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        jobs = [(source, False) for source in args.sources]
        if not jobs:
            (folder / "sources").mkdir()
            wanted = [path for path in recorded_folders() if args.only in ("", path.name)]
            wanted += [tiny_folders.write(family, folder / "made") for family in tiny_folders.FAMILIES if args.only in ("", family)]
            jobs = [(str(unpacked(path, folder / "sources")), True) for path in wanted]
            jobs += [] if args.tiny else [(str(path), False) for pattern in ("stories15m/*15M.bin", "smollm2/*.gguf", "tinyllama/*.gguf")
                     for path in sorted((ROOT / "downloads").glob(pattern))]
        for source, tiny in jobs:
            try:
                line = check(args.talon, args.peer, source, tiny, args.tokens, folder)
            except RuntimeError as error:
                line = {"model": pathlib.Path(source).stem, "ok": False, "error": str(error)}
            failed += not line["ok"]
            print(json.dumps(line), flush=True)
            for file in folder.glob("*.gguf"):
                file.unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
