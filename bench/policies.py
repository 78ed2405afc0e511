"""What scripts/compare_policies.sh asks: which questions, which settings, which of them are best.

usage: bench/policies.py split QUESTIONS FIRST SECOND          every other question of each category
       bench/policies.py settings HEAD NETWORKS [POLICY ...]   all methods to tune, for `talon bench spec --methods`
       bench/policies.py best SPEC_JSONL                       of its methods: the fastest of each drafter and policy
"""
import collections
import itertools
import json
import pathlib
import sys

# Without a draft head, to compare with.
PLAIN_DRAFTERS = ["ngram", "suffix"]


def grid(networks: str) -> dict[str, list[str]]:
    """The options that are tried, by policy. At most 15 nodes: a check of 16 rows takes three times as long as one of a row."""
    ordinal, asymmetric = f"predictor={networks}/ordinal/ada_eagle.safetensors", f"predictor={networks}/asymmetric/ada_eagle.safetensors"
    radar = f"weights={networks}/radar/radar.safetensors"
    return {
        "throughput": [""],
        "eagle2": [f"levels={levels},nodes={nodes}" for levels, nodes in [(1, 1), (2, 2), (2, 3), (3, 3), (3, 5), (3, 7), (4, 7), (6, 15)]],
        "static": [f"children={shape}" for shape in ["1", "1/1", "1/1/1", "2/1", "2/1/1", "4/2/1/1/1"]],
        "ddd": [f"threshold={threshold},after=1/2/3/4/5,levels=6,nodes={nodes}"
                for threshold, nodes in [(-0.2, 3), (-0.2, 7), (-0.4, 3), (-0.4, 5), (-0.7, 3), (-0.7, 7)]],
        "ada_eagle": [f"{network},nodes={nodes}{more}" for network in [ordinal, asymmetric] for nodes in [3, 7]
                      for more in ["", ",hybrid=1,threshold=-0.3"]],
        "radar": [f"{radar},nodes={nodes},draw={draw}" for nodes, draw in [(3, 0), (7, 0), (7, 1)]],
        "adjacency": [f"levels=3,topk={topk},least_topk=1,nodes={nodes}" for topk, nodes in [(2, 3), (4, 7)]],
    }


def split(questions: str, *halves: str) -> None:
    lines = collections.defaultdict(list)
    for line in pathlib.Path(questions).read_text().splitlines():
        lines[json.loads(line)["category"]].append(line)
    for half, path in enumerate(halves):
        # In turn from each category: the first ones of the multi-turn questions, which have several, are of all kinds.
        turns = itertools.zip_longest(*(of_category[half::2] for of_category in lines.values()))
        pathlib.Path(path).write_text("".join(line + "\n" for turn in turns for line in turn if line))


def settings(head: str, networks: str, *only: str) -> None:
    tried = grid(networks)
    if unknown := set(only) - set(tried):
        sys.exit(f"policies: expected some of {', '.join(tried)}, found {', '.join(sorted(unknown))}")
    methods = ["none", *PLAIN_DRAFTERS]
    for drafter in [f"eagle3:head={head}", f"eagle3:head={head}+suffix"]:
        for policy in only or tried:
            methods += [f"{drafter}@policy={policy}" + (f":{options}" if options else "") for options in tried[policy]]
    print(",".join(methods))


def best(results: str) -> None:
    summary = json.loads(pathlib.Path(results).read_text().splitlines()[-1])
    if "summary" not in summary or summary["partial"]:
        sys.exit(f"policies: expected a complete run in {results}, found a partial one")
    fastest = {}
    for method, about in summary["summary"].items():
        kind = method.partition(":")[0] if "@policy=" not in method else method.split("@policy=")[0] + method.split("@policy=")[1].partition(":")[0]
        if kind not in fastest or about["speedup"] > summary["summary"][fastest[kind]]["speedup"]:
            fastest[kind] = method
    print(",".join(fastest.values()))


if __name__ == "__main__":
    {"split": split, "settings": settings, "best": best}[sys.argv[1]](*sys.argv[2:])
