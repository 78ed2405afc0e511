"""Prints the README's table from bench/results/*.jsonl. usage: bench/table.py FOLDER"""
import json
import pathlib
import sys


def spread(cell: dict, digits: int = 1) -> str:
    return f"{cell['median']:.{digits}f} ({cell['min']:.{digits}f}-{cell['max']:.{digits}f})"


def peer_table(file: pathlib.Path) -> list[str]:
    rows = ["| model, 2 threads | | Talon | llama.cpp | ratio | bound of the same run |", "|---|---|---|---|---|---|"]
    for line in map(json.loads, file.read_text().splitlines()):
        limit = line["talon_bandwidth_gb_s"]["median"] * 1e9 / line["talon_weights_bytes"]["median"]
        name = line["model"].removesuffix(".gguf")
        rows += [
            f"| {name} | plain decoding, tok/s | {spread(line['talon_decode_tok_s'])} | {spread(line['peer_decode_tok_s'])} | "
            f"**{spread(line['ratio_decode_tok_s'], 2)}** | {limit:.0f} tok/s at {line['talon_bandwidth_gb_s']['median']:.0f} GB/s read from memory |",
            f"| | prefill of 512, tok/s | {spread(line['talon_prefill_tok_s'], 0)} | {spread(line['peer_prefill_tok_s'], 0)} | "
            f"**{spread(line['ratio_prefill_tok_s'], 2)}** | |",
            f"| | 8 rows checked, times one row | {spread(line['talon_c8'], 2)} | {spread(line['peer_c8'], 2)} | | |",
        ]
    return rows


def lookup_table(file: pathlib.Path) -> list[str]:
    summary = json.loads(file.read_text().splitlines()[-1])["summary"]
    rows = ["| drafter, SmolLM2, summarisation questions, greedy | tok/s | speed-up | worst question | tau | answers equal to plain |", "|---|---|---|---|---|---|"]
    for method, cell in summary.items():
        rows.append(f"| `{method}` | {cell['tok_s']:.1f} | {cell['speedup']:.2f} | {cell['worst']:.2f} | {cell['tau']:.2f} | {cell['equal']} |")
    return rows


folder = pathlib.Path(sys.argv[1])
print("\n".join(peer_table(folder / "peer.jsonl") + [""] + lookup_table(folder / "ngram_summarization.jsonl")))
