"""Plain decoding, prefill and eight-row checks of Talon and llama.cpp on the same files, in one interleaved run.

usage: bench/peer.py TALON PEER_FOLDER MODEL.gguf... [--also BUILD=FOLDER] [--rounds 5] [--threads N] [--no-text] [--out FILE.jsonl]

PEER_FOLDER holds llama-bench and llama-batched-bench, as scripts/llama_cpp.sh prints it. --also: another build of them, whose numbers
stand beside as peer@BUILD_... and ratio@BUILD_...; may be repeated. Each round
runs each program once, in turn, another one first each time, so that a noisy machine hits both; medians and the spread are reported,
and the measured read bandwidth stands beside them. --threads: of both, by default as many as Talon takes by itself. --no-text: models
without a tokenizer, whose plain decoding is that of the one-row checks. --out: a line for each model is put there as soon as it is
measured, in place of an earlier one of that model.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time


def run(command: list[str], **kwargs) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def version_of(peer: pathlib.Path) -> str:
    """What the programs say that they are."""
    done = subprocess.run([str(peer / "llama-batched-bench"), "--version"], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(peer)})
    told = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("version: ")]
    return told[0].removeprefix("version: ") if told else "unknown"


def peer_plain(peer: pathlib.Path, model: str, threads: int) -> dict:
    out = run([str(peer / "llama-bench"), "-m", model, "-t", str(threads), "-p", "512", "-n", "64", "-r", "2", "-o", "jsonl"],
              env={**os.environ, "LD_LIBRARY_PATH": str(peer)})
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {"decode_tok_s": next(r["avg_ts"] for r in rows if r["n_gen"]),
            "prefill_tok_s": next(r["avg_ts"] for r in rows if r["n_prompt"])}


def peer_rows(peer: pathlib.Path, model: str, threads: int) -> dict:
    out = run([str(peer / "llama-batched-bench"), "-m", model, "-t", str(threads), "-npp", "4", "-ntg", "16", "-npl", "1,8"],
              env={**os.environ, "LD_LIBRARY_PATH": str(peer)})
    ms = {}
    for line in out.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 10 and cells[2] in ("1", "8"):
            ms[int(cells[2])] = float(cells[6]) * 1000 / int(cells[1])
    return {"ms_1": ms[1], "ms_8": ms[8], "c8": ms[8] / ms[1]}


def talon_cost(talon: str, model: str, threads: int, *words: str) -> tuple[dict[int, float], dict]:
    """Milliseconds by rows, and the closing line."""
    out = run([talon, "bench", "cost", "-m", model, "--threads", str(threads), "--context", "16", *words])
    *rows, closing = map(json.loads, out.splitlines())
    return {row["rows"]: row["ms"] for row in rows}, closing


def talon_rows(talon: str, model: str, threads: int) -> dict:
    ms, closing = talon_cost(talon, model, threads, "--rows", "1,8")
    prefill, _ = talon_cost(talon, model, threads, "--rows", "512", "--logits", "last")  # as llama-bench, which asks for the last row's
    return {"ms_1": ms[1], "ms_8": ms[8], "c8": ms[8] / ms[1], "prefill_tok_s": 512e3 / prefill[512],
            "bandwidth_gb_s": closing["bandwidth_gb_s"], "weights_bytes": closing["weights_bytes"]}


def provenance(talon: str, threads: int | None) -> dict:
    machine = json.loads(run([talon, "inspect", "--machine", "--json"]))
    about = {key: machine[key] for key in ("processor", "processors", "memory_gib", "last_level_cache_mib")}
    return {"threads": threads or machine["threads"], "commit": machine["commit"],
            "date": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()), "machine": about}


def talon_plain(talon: str, model: str, threads: int) -> dict:
    """As llama-bench measures: 64 tokens, twice, after as many that do not count."""
    question = {"question_id": 1, "category": "writing", "turns": ["Tell a long story about a lighthouse."]}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as questions:
        questions.write(json.dumps(question) + "\n")
        questions.flush()
        out = run([talon, "bench", "spec", "-m", model, "--methods", "none", "--questions", questions.name, "-n", "64", "--repeats", "2",
                   "--threads", str(threads)])
    return {"decode_tok_s": next(json.loads(line)["tok_s"] for line in out.splitlines() if '"tok_s"' in line)}


def build(text: str) -> tuple[str, pathlib.Path]:
    """BUILD=FOLDER as the end of the names of its numbers, and its folder."""
    name, equals, folder = text.partition("=")
    if not equals or not re.fullmatch(r"[\w.-]+", name):
        raise argparse.ArgumentTypeError(f"expected BUILD=FOLDER, got {text}")
    return f"@{name}", pathlib.Path(folder)


def put(line: dict, out: pathlib.Path) -> None:
    """In place of an earlier line of the model, or behind the others."""
    lines = [json.loads(text) for text in out.read_text().splitlines()] if out.exists() else []
    models = [other["model"] for other in lines]
    place = models.index(line["model"]) if line["model"] in models else len(lines)
    lines[place:place + 1] = [line]
    aside = out.with_suffix(".tmp")
    aside.write_text("".join(json.dumps(each) + "\n" for each in lines))
    aside.rename(out)


def spread(values: list[float]) -> dict:
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talon")
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--also", type=build, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--no-text", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    builds = {"": args.peer, **dict(args.also)}
    about = provenance(args.talon, args.threads)
    about["engines"] = {f"llama.cpp{name}": version_of(folder) for name, folder in builds.items()}
    for model in args.models:
        samples: dict[str, list[float]] = {}
        for number in range(args.rounds):
            plain, rows = ([("talon", args.talon, ours), *((f"peer{name}", folder, theirs) for name, folder in builds.items())]
                           for ours, theirs in ((talon_plain, peer_plain), (talon_rows, peer_rows)))
            turns = rows if args.no_text else plain + rows
            begin = number % len(turns)
            for prefix, program, measure in turns[begin:] + turns[:begin]:
                for key, value in measure(program, model, about["threads"]).items():
                    samples.setdefault(f"{prefix}_{key}", []).append(value)
        line = {"model": pathlib.Path(model).name, "rounds": args.rounds, **about}
        for key, values in samples.items():
            line[key] = spread(values)
        for name in builds:
            for key in () if args.no_text else ("decode_tok_s", "prefill_tok_s"):
                line[f"ratio{name}_{key}"] = spread([a / b for a, b in zip(samples[f"talon_{key}"], samples[f"peer{name}_{key}"])])
            for key in ("ms_1", "ms_8"):
                line[f"ratio{name}_{key}"] = spread([b / a for a, b in zip(samples[f"talon_{key}"], samples[f"peer{name}_{key}"])])
        print(json.dumps(line), flush=True)
        if args.out:
            put(line, args.out)


if __name__ == "__main__":
    main()
