"""Writes and runs examples/python.ipynb: a tree of drafts drawn, and a speed-up measured.

usage: python_notebook.py [check]     (in an environment with talon, nbformat, nbclient and ipykernel; smollm2 in downloads/)
check: runs what is in examples/python.ipynb, and fails if that is not what this file makes.
"""
import pathlib
import sys

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).parents[1]
CELLS = [
    ("markdown", "# Talon from Python\n\nA model answers, drafted and plain; the text is the same, the time is not. "
                 "`talon pull smollm2` fetches the model."),
    ("code", 'import talon\n\nmodel = talon.Model("smollm2")\nprint(model, "drafts by", model.drafter)'),
    ("code", 'messages = [talon.chat.user("Write a short story about a fox who learns to share.")]\n'
             "answer = model.generate(messages, max_new=100)\nprint(answer)"),
    ("markdown", "Tokens that had been drafted and were right stand in brackets: the model checked them together with others in "
                 "one pass. `policy=fixed` drafts in every round; the default, `throughput`, where that gains time."),
    ("code", 'drawn = dict(drafter="eagle3@policy=fixed", rounds=True)\n'
             'with model.generate(messages, max_new=60, stream=True, **drawn) as stream:\n    for token in stream:\n'
             '        print(f"[{token.text}]" if token.accepted else token.text, end="")'),
    ("markdown", "## A tree\n\nThe round that brought most. The green path became text; the others were checked with it and dropped."),
    ("code", '''from IPython.display import SVG

def draw(round_, wide=150, high=34):
    """A tree as SVG: depth from left to right, one row for each leaf."""
    children = {}
    for node, parent in enumerate(round_.parents):
        children.setdefault(int(parent), []).append(node)
    places, rows = {}, 0

    def place(node, depth):
        nonlocal rows
        below = children.get(node, [])
        for child in below:
            place(child, depth + 1)
        if not below:
            rows += 1
        places[node] = (depth, sum(places[c][1] for c in below) / len(below) if below else rows - 1)

    place(0, 0)
    parts = []
    for node, (depth, row) in places.items():
        x, y = 60 + depth * wide, 20 + row * high
        colour = "#1a7f37" if node in round_.accepted else "#8c959f"
        if node:
            px, py = (60 + places[int(round_.parents[node])][0] * wide, 20 + places[int(round_.parents[node])][1] * high)
            parts.append(f'<line x1="{px + 45}" y1="{py}" x2="{x - 45}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
        text = model.detokenize([round_.tokens[node]]).strip().replace("&", "&amp;").replace("<", "&lt;") or "\\u23ce"
        parts.append(f'<rect x="{x - 45}" y="{y - 12}" width="90" height="24" rx="6" fill="{colour}"/>'
                     f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="white" font-family="sans-serif" font-size="13">{text}</text>')
    deepest = max(depth for depth, _ in places.values())
    return SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="{120 + deepest * wide}" height="{40 + (rows - 1) * high}">{"".join(parts)}</svg>')

draw(max(stream.answer.rounds, key=lambda r: (len(r.accepted), -len(r.tokens))))'''),
    ("markdown", "## A speed-up\n\nThree times each, by turns; the best of each counts."),
    ("code", '''speeds = {"none": [], "auto": []}
texts = set()
for _ in range(3):
    for drafter, found in speeds.items():
        one = model.generate(messages, max_new=160, drafter=None if drafter == "auto" else drafter, reuse_prefix=False)
        found.append(one.statistics["tokens_per_second"])
        texts.add(one.text)
best = {drafter: max(found) for drafter, found in speeds.items()}
print({drafter: [round(one) for one in found] for drafter, found in speeds.items()}, "tokens/s")
print(f"{best['auto'] / best['none']:.2f} times as fast, tau {one.statistics['tau']:.2f}, {len(texts)} text")'''),
    ("markdown", "## Many prompts at once"),
    ("code", '''answers = model.generate_batch(["The capital of France is", "Water boils at", "The opposite of hot is"], max_new=8, progress=False)
for one in answers:
    print(repr(one.text))'''),
    ("markdown", "## The model's own numbers"),
    ("code", '''ids = model.tokenize("The capital of France is")
logits = model.logits(ids, first=len(ids) - 1)[0]
[(model.detokenize([i]), round(float(logits[i]), 2)) for i in logits.argsort()[::-1][:5]]'''),
]


def make() -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(text) if kind == "markdown" else nbformat.v4.new_code_cell(text) for kind, text in CELLS]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return notebook


def main(arguments: list[str]) -> None:
    notebook = make()
    path = ROOT / "examples/python.ipynb"
    if arguments == ["check"] and [cell.source for cell in nbformat.read(path, 4).cells] != [cell.source for cell in notebook.cells]:
        sys.exit("examples/python.ipynb is not what scripts/python_notebook.py makes: make notebook")
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", coalesce_streams=True,
                            resources={"metadata": {"path": str(ROOT)}}).execute()
    if arguments == ["check"]:
        return
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.language_info.pop("version", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
