"""Makes tables of what bench/results holds, and prints them.

usage: bench/table.py RESULTS README             puts all but that of the policies between the README's marks
       bench/table.py policies RESULTS.jsonl PAGE.md   from the runs of scripts/compare_policies.sh, one after the other
"""
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


def policies_page(file: pathlib.Path) -> str:
    parts, rounds = [], {}
    for line in map(json.loads, file.read_text().splitlines()):
        if "summary" in line:
            parts += policies_tables(line, rounds)
            rounds = {}
        elif line.get("equal"):  # as in the summary's means
            rounds[line["method"]] = rounds.get(line["method"], 0) + line["rounds"]
    return "\n".join(parts) + "\n"


def policies_tables(run: dict, rounds: dict[str, int]) -> list[str]:
    """Of one run: all methods, fastest first, then the speed-up of each by subtask."""
    methods = sorted(run["summary"].items(), key=lambda entry: -entry[1]["speedup"])
    temperature, subtasks = run["settings"]["temperatures"][0], sorted(run["subtasks"])
    head = ["drafter", "policy", "setting", "tok/s", "speed-up", "worst question", "tau", "nodes", "draft ms", "check ms", "other ms"]
    rows = [f"Temperature {temperature:g}; nodes and milliseconds are means per round.", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    split = ["", f"Speed-up by kind of question, temperature {temperature:g}:", "", f"| drafter | policy | {' | '.join(subtasks)} |",
             "|---" * (2 + len(subtasks)) + "|"]
    for method, about in methods:
        drafter, _, policy = method.partition("@policy=")
        name, _, setting = policy.partition(":")
        if drafter != "none":
            name = name or run["settings"]["policy"]
        drafter = "+".join(part.partition(":")[0] for part in drafter.split("+"))
        setting = ",".join(without_folder(option) for option in setting.split(","))
        count = rounds[method]
        times = [about["draft_ms"], about["check_ms"], about["decode_ms"] - about["draft_ms"] - about["check_ms"]]
        rows.append(f"| {drafter} | {name} | {setting} | {about['tok_s']:.1f} | {about['speedup']:.2f} [{about['speedup_low']:.2f}, "
                    f"{about['speedup_high']:.2f}] | {about['worst']:.2f} | {about['tau']:.2f} | {about['drafted_per_check']:.1f} | "
                    + " | ".join(f"{ms / count:.2f}" for ms in times) + " |")
        split.append(f"| {drafter} | {name} | " + " | ".join(f"{run['subtasks'][subtask][method]['speedup']:.2f}" for subtask in subtasks) + " |")
    unequal = sum(about["unequal"] for about in run["summary"].values())
    about_run = [f"{run['questions']} questions", f"{unequal} answers differ from plain decoding", run["model"], run["backend"], run["date"],
                 run["commit"], run["machine"]["processor"], f"memory {run['bandwidth_gb_s']:.0f} GB/s ({run['bandwidth_gb_s_least']:.0f}-{run['bandwidth_gb_s_most']:.0f})"]
    return [*rows, *split, "", " · ".join(about_run), ""]


def without_folder(option: str) -> str:
    """predictor=build/policies/ordinal/ada_eagle.safetensors -> predictor=ordinal"""
    key, equals, value = option.partition("=")
    return f"{key}{equals}{pathlib.Path(value).parent.name if value.endswith('.safetensors') else value}"


def main() -> None:
    if sys.argv[1] == "policies":
        page = policies_page(pathlib.Path(sys.argv[2]))
        pathlib.Path(sys.argv[3]).write_text(page)
        print(page)
        return
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
