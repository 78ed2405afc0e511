"""Puts the tables of bench/results between the README's marks and prints them. usage: bench/table.py RESULTS README"""
import json
import pathlib
import sys

BEGIN, END = "<!-- make bench -->", "<!-- end of make bench -->"


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


def main() -> None:
    results, readme = map(pathlib.Path, sys.argv[1:])
    parts = [file.read_text().rstrip() for file in sorted(results.glob("spec_*.md"))]
    parts.append("\n".join(peer_table(results / "peer.jsonl")))
    tables = "\n\n".join(parts)
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    aside = readme.with_suffix(".tmp")
    aside.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}")
    aside.rename(readme)
    print(tables)


main()
