"""Makes tables of what bench/results holds.

usage: bench/table.py RESULTS                    puts the README's table, those of docs/results.md and the figures of docs/field.md
                                                 between their marks
       bench/table.py --check RESULTS            names the pages in which that would change something, and fails if there are any
       bench/table.py policies RESULTS.jsonl PAGE.md   from the runs of scripts/compare_policies.sh, one after the other
"""
import json
import pathlib
import re
import sys
import textwrap

BEGIN, END = "<!-- make bench -->", "<!-- end of make bench -->"
# A figure within a sentence: of spec_NAME.jsonl, or as field_MODEL a model's of field.jsonl, which method's, which it is, and of a run of
# several temperatures at which.
# No line begins with such a mark, which would end the paragraph.
FIGURE = re.compile(r"(<!-- bench: (\S+) (\S+) (\w+)(?: T([\d.]+))? -->).*?(<!-- / -->)", re.DOTALL)


def number(value: float | None, digits: int) -> str:
    """A dash where nothing was measured, as of a peer that died."""
    return "–" if value is None else f"{value:.{digits}f}"


def spread(cell: dict, digits: int = 1) -> str:
    return f"{cell['median']:.{digits}f} ({cell['min']:.{digits}f}-{cell['max']:.{digits}f})"


def short_name(method: str) -> str:
    """eagle3:head=models/smollm2-eagle3+suffix -> eagle3+suffix"""
    if method.startswith("peer:"):
        return method.removeprefix("peer:")
    return "+".join(part.partition(":")[0] for part in method.partition("@")[0].split("+"))


def methods_of(run: dict) -> list[tuple[str, dict]]:
    """In the order they were asked for."""
    return [(short_name(method), run["summary"][method]) for method in run["settings"]["methods"]]


def last_line(file: pathlib.Path) -> dict:
    return json.loads(file.read_text().rstrip().rsplit("\n", 1)[-1])


def interval(about: dict, key: str) -> str:
    if about[key] is None or f"{key}_low" not in about or about[f"{key}_low"] == about[f"{key}_high"]:
        return number(about[key], 2)
    return f"{about[key]:.2f} [{about[f'{key}_low']:.2f}, {about[f'{key}_high']:.2f}]"


def bound(run: dict) -> str:
    if "bandwidth_gb_s" not in run:
        return ""
    return (f"Reading {run['weights_bytes'] / 1e6:.0f} MB of weights for each token at {run['bandwidth_gb_s']:.0f} GB/s allows "
            f"{most_tok_s(run):.0f} tok/s; plain decoding reaches {share_of_bound(run['summary']['none'], run)} % of that.")


def most_tok_s(run: dict) -> float:
    return run["bandwidth_gb_s"] * 1e9 / run["weights_bytes"]


def share_of_bound(about: dict, run: dict) -> str:
    return f"{100 * about['tok_s'] / most_tok_s(run):.0f}"


def origin(run: dict) -> str:
    greedy = "" if several_temperatures(run) else " greedy,"
    return (f"{run['questions']} questions of Spec-Bench, {run['model']},{greedy} {computed_on(run['settings']['threads'], run)}, "
            f"one interleaved run, {run['date'][:10]}, {run['commit']}.")


def computed_on(threads: int, about: dict) -> str:
    kernels = f" ({kernels_of(about)})" if "backend" in about else ""
    return f"{threads} threads on {about['machine']['processor']}{kernels}"


def kernels_of(run: dict) -> str:
    """avx2, avx512_bf16, ..."""
    return run["backend"].partition(" kernels")[0]


def same_tokens(about: dict) -> str:
    if about["equal"]:
        return "yes"
    parts = [f"{about['unequal']} of {about['cells']} differ"] if about["unequal"] else []
    return ", ".join(parts + ([f"{about['failed']} failed"] if about["failed"] else []))


def several_temperatures(run: dict) -> bool:
    return len(run["temperatures"]) > 1


def by_temperature(run: dict, first: str, cell) -> list[str]:
    """A table with a column for each temperature; `cell` makes text of what a method did at one."""
    parts = [(f"{temperature:g}", run["temperatures"][f"{temperature:g}"]) for temperature in run["settings"]["temperatures"]]
    rows = [f"| {first} | {' | '.join(f'T {name}' for name, _ in parts)} |", "|---" + "|---:" * len(parts) + "|"]
    for method in run["settings"]["methods"]:
        rows.append(f"| `{short_name(method)}` | {' | '.join(cell(part[method]) for _, part in parts)} |")
    return rows


def readme_table(run: dict) -> list[str]:
    rows = by_temperature(run, "speed-up at temperature T", lambda about: interval(about, "speedup"))
    plain = " | ".join(f"{run['temperatures'][f'{temperature:g}']['none']['tok_s']:.0f}" for temperature in run["settings"]["temperatures"])
    rows[2] = f"| `none`, tok/s | {plain} |"  # the first method: what the others are compared with
    return [*rows, "", *textwrap.wrap(f"{origin(run)} Brackets: 95 %. {bound(run)}", 118)]


def temperatures_tables(run: dict) -> list[str]:
    speed = by_temperature(run, "tok/s", lambda about: number(about["tok_s"], 0))
    gain = by_temperature(run, "speed-up", lambda about: interval(about, "speedup"))
    worst = by_temperature(run, "speed-up of the worst question", lambda about: number(about["worst"], 2))
    tau = by_temperature(run, "tau (drafted tokens a check)", lambda about: f"{number(about['tau'], 2)} ({number(about['drafted_per_check'], 1)})")
    unequal = sum(about["unequal"] for about in run["summary"].values())
    told = textwrap.wrap(f"{origin(run)} {unequal} answers differ from plain decoding. {bound(run)}", 118)
    return [f"## {run['model']}: at each temperature, {kernels_of(run)}", "", *speed, "", *gain, "", *worst, "", *tau, "", *told, ""]


def spec_table(run: dict) -> list[str]:
    rows = [f"## {run['model']}: whole answers, {kernels_of(run)}", "", "| method | tok/s | speed-up | with prefill | worst question | tau | drafted | same tokens |",
            "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, about in methods_of(run):
        rows.append(f"| `{name}` | {number(about['tok_s'], 1)} | {interval(about, 'speedup')} | {number(about['wall_speedup'], 2)} | "
                    f"{number(about['worst'], 2)} | {number(about['tau'], 2)} | {number(about['drafted_per_check'], 1)} | {same_tokens(about)} |")
    return [*rows, "", *textwrap.wrap(f"{origin(run)} {bound(run)}", 118), ""]


def peer_table(file: pathlib.Path) -> list[str]:
    """A column for each build of llama.cpp that the file has numbers of."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    builds = list(dict.fromkeys(key.removeprefix("peer").removesuffix("_ms_8")
                                for line in lines for key in line if key.startswith("peer") and key.endswith("_ms_8")))
    rows = ["## Single forwards beside llama.cpp's own benchmark programs", "",
            f"| | Talon |{''.join(f' llama.cpp{build} | ratio |' for build in builds)}", "|---" * (2 + 2 * len(builds)) + "|"]
    for line in lines:
        limit = line["talon_bandwidth_gb_s"]["median"] * 1e9 / line["talon_weights_bytes"]["median"]
        told = f"; {computed_on(line['threads'], line)}, {line['date'][:10]}, {line['commit']}" if "commit" in line else ""
        rows.append(f"| **{line['model'].removesuffix('.gguf')}**, bound {limit:.0f} tok/s{told} |{' |' * (1 + 2 * len(builds))}")
        for key, name, digits in (("decode_tok_s", "plain decoding, tok/s", 1), ("prefill_tok_s", "prefill of 512, tok/s", 0)):
            cells = [cell_of(line, f"talon_{key}", digits)]
            for build in builds:
                cells += [cell_of(line, f"peer{build}_{key}", digits), cell_of(line, f"ratio{build}_{key}", 2)]
            rows.append(f"| {name} | {' | '.join(cells)} |")
        theirs = "".join(f" {cell_of(line, f'peer{build}_c8', 2)} | |" for build in builds)
        rows.append(f"| 8 rows checked, times one row | {spread(line['talon_c8'], 2)} |{theirs}")
    return rows


def cell_of(line: dict, key: str, digits: int) -> str:
    """A dash for a build that was not measured on the model."""
    return spread(line[key], digits) if key in line else "–"


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
    methods = sorted(run["summary"].items(), key=lambda entry: -(entry[1]["speedup"] or 0))
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
        count = rounds.get(method, 0)
        times = [about["draft_ms"], about["check_ms"], about["decode_ms"] - about["draft_ms"] - about["check_ms"]] if count else []
        cells = [number(about["tok_s"], 1), interval(about, "speedup"), number(about["worst"], 2), number(about["tau"], 2),
                 number(about["drafted_per_check"], 1), *(number(ms / count, 2) for ms in times)]
        rows.append(f"| {drafter} | {name} | {setting} | {' | '.join(cells + [number(None, 2)] * (len(head) - 3 - len(cells)))} |")
        gains = [number(run["subtasks"][subtask][method]["speedup"], 2) for subtask in subtasks]
        split.append(f"| {drafter} | {name} | {' | '.join(gains)} |")
    unequal = sum(about["unequal"] for about in run["summary"].values())
    about_run = [f"{run['questions']} questions", f"{unequal} answers differ from plain decoding", run["model"], run["backend"], run["date"],
                 run["commit"], run["machine"]["processor"]]
    if "bandwidth_gb_s" in run:
        about_run.append(f"memory {run['bandwidth_gb_s']:.0f} GB/s ({run['bandwidth_gb_s_least']:.0f}-{run['bandwidth_gb_s_most']:.0f})")
    return [*rows, *split, "", " · ".join(about_run), ""]


def without_folder(option: str) -> str:
    """predictor=build/policies/ordinal/ada_eagle.safetensors -> predictor=ordinal"""
    key, equals, value = option.partition("=")
    return f"{key}{equals}{pathlib.Path(value).parent.name if value.endswith('.safetensors') else value}"


def with_figures(page: str, results: pathlib.Path) -> str:
    """The page with each figure between its marks."""
    def put_figure(mark: re.Match) -> str:
        begin, name, method, kind, temperature, end = mark.groups()
        of_field = name.startswith("field_")
        file = results / ("field.jsonl" if of_field else f"spec_{name}.jsonl")
        if not file.exists():
            sys.exit(f"{begin}: expected {file}, which is not there")
        run = field_run(file, name.removeprefix("field_")) if of_field else last_line(file)
        return begin + figure(run, method, kind, temperature, begin) + end

    return FIGURE.sub(put_figure, page)


def field_run(file: pathlib.Path, model: str) -> dict:
    """What `bench field` says of a model, of all its questions, as a run of several temperatures."""
    temperatures: dict[str, dict] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        if line.get("model") == model and line.get("questions") == "all":
            temperatures.setdefault(f"{line['temperature']:g}", {})[line["method"]] = line
    return {"temperatures": temperatures, "settings": {"methods": next(iter(temperatures.values()), {})}}


def figure(run: dict, method: str, kind: str, temperature: str | None, mark: str) -> str:
    if several_temperatures(run) != (temperature is not None):
        sys.exit(f"{mark}: expected a temperature where the run has several, and there alone")
    abouts = run["temperatures"].get(temperature, {}) if temperature else run["summary"]
    about = abouts.get(method) or {short_name(asked): abouts.get(asked) for asked in run["settings"]["methods"]}.get(method)
    kinds = {"speedup": lambda: interval(about, "speedup"), "tau": lambda: number(about["tau"], 2),
             "tok_s": lambda: number(about["tok_s"], 0), "share": lambda: share_of_bound(about, run),
             "questions": lambda: str(run["questions"])}
    if not about or kind not in kinds:
        sys.exit(f"{mark}: expected a method and a temperature of the run, and one of {', '.join(kinds)}")
    return kinds[kind]()


def main() -> None:
    if sys.argv[1] == "policies":
        page = policies_page(pathlib.Path(sys.argv[2]))
        pathlib.Path(sys.argv[3]).write_text(page)
        print(page)
        return
    pages = pages_of(pathlib.Path(sys.argv[-1]))
    stale = [page for page, text in pages.items() if page.read_text() != text]
    if sys.argv[1] == "--check":
        sys.exit("\n".join(f"{page}: not what bench/results holds (python3 bench/table.py bench/results)" for page in stale) or 0)
    for page in stale:
        aside = page.with_suffix(".tmp")
        aside.write_text(pages[page])
        aside.rename(page)


def pages_of(results: pathlib.Path) -> dict[pathlib.Path, str]:
    """What each page should be."""
    runs = [last_line(file) for file in sorted(results.glob("spec_*.jsonl"))]
    at_temperatures = [last_line(file) for file in results.glob("spec_smollm2_temperatures*.jsonl")]
    tables = [temperatures_tables(run) if several_temperatures(run) else spec_table(run) for run in runs]
    peers = [peer_table(file) for file in sorted(results.glob("peer*.jsonl"))]
    readme, all_results, field = pathlib.Path("README.md"), pathlib.Path("docs/results.md"), pathlib.Path("docs/field.md")
    return {readme: with_rows(readme, readme_table(max(at_temperatures, key=lambda run: run["date"]))),  # the newest
            all_results: with_rows(all_results, [row for table in [*tables, *peers] for row in table]),
            field: with_figures(field.read_text(), results)}


def with_rows(page: pathlib.Path, rows: list[str]) -> str:
    """The page with these rows between its marks."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    return "\n".join([before + BEGIN, *rows, END]) + after


if __name__ == "__main__":
    main()
