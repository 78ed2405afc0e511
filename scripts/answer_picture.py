#!/usr/bin/env python3
"""Draws an answer as a picture: tokens that a drafter guessed are tinted, and a line lies under the tokens of one check.

usage: scripts/answer_picture.py TALON OUT.svg [MODEL [PROMPT]]
"""
import html
import json
import pathlib
import subprocess
import sys

MODEL, PROMPT = "smollm2", "What is a neural network?"
COLUMNS, LINE, CHARACTER, MARGIN = 76, 27, 9.0, 28  # characters a line, pixels

STYLE = """
  svg { font: 15px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace }
  .card { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .quiet { fill: #59636e }
  .drafted { fill: #c8f0d4 } .check { stroke: #8b949e; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d } .text { fill: #e6edf3 } .quiet { fill: #9198a1 }
    .drafted { fill: #1c5434 } .check { stroke: #6e7681 }
  }"""


def talon(program: str, *arguments: str) -> dict:
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


def characters_of(run: dict, texts: list[str]) -> list[tuple[str, int, bool]]:
    """Each character of the answer with the number of its check and whether a draft had its token."""
    of_token = [(0, False)]  # the last row of the prompt gives the first token
    for check, accepted in enumerate(run["accepted"], 1):
        of_token += [(check, True)] * accepted + [(check, False)]
    return [(c, *mark) for text, mark in zip(texts, of_token) for c in text]


def lines_of(characters: list[tuple[str, int, bool]]) -> list[list[tuple[str, int, bool]]]:
    lines, line = [], []
    for character in characters:
        if character[0] == "\n":
            lines.append(line)
            line = []
            continue
        line.append(character)
        if len(line) > COLUMNS:
            cut = max((i + 1 for i, (c, _, _) in enumerate(line) if c == " "), default=COLUMNS)
            lines.append(line[:cut])
            line = line[cut:]
    lines = [line[:-1] if line and line[-1][0] == " " else line for line in [*lines, line]]
    return [line for line in lines if line]


def spans(line: list[tuple], key) -> list[tuple[int, int]]:
    """Begin and end of each stretch of equal keys."""
    ends = [i for i in range(1, len(line)) if key(line[i]) != key(line[i - 1])]
    return list(zip([0, *ends], [*ends, len(line)]))


def text(x: float, y: float, words: str, kind: str) -> str:
    return (f'<text x="{x:g}" y="{y:g}" class="{kind}" textLength="{len(words) * CHARACTER:g}" '
            f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{html.escape(words, quote=False)}</text>')


def drawn_line(line: list[tuple[str, int, bool]], y: float) -> list[str]:
    place = lambda column: MARGIN + column * CHARACTER
    parts = []
    for begin, end in spans(line, lambda c: c[1:]):
        if line[begin][2]:
            parts.append(f'<rect x="{place(begin):g}" y="{y - 15:g}" width="{(end - begin) * CHARACTER:g}" height="19" '
                         'class="drafted"/>')
    for begin, end in spans(line, lambda c: c[1]):
        parts.append(f'<path d="M{place(begin) + 1.5:g} {y + 6.5:g}H{place(end) - 1.5:g}" class="check"/>')
    parts.append(text(place(0), y, "".join(c for c, _, _ in line), "text"))
    return parts


def picture(question: str, lines: list, foot: list[str]) -> str:
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, LINE * (len(lines) + len(foot)) + 82
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
             f"<style>{STYLE}\n</style>",
             f'<rect x="1" y="1" width="{width - 2:g}" height="{height - 2:g}" rx="10" class="card"/>',
             text(MARGIN, 36, "> " + question, "quiet")]
    for index, line in enumerate(lines):
        parts += drawn_line(line, 72 + LINE * index)
    for index, words in enumerate(foot):
        parts.append(text(MARGIN, 92 + LINE * (len(lines) + index), words, "quiet"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    program, out, *rest = sys.argv[1:]
    model = rest[0] if rest else MODEL
    question = rest[1] if len(rest) > 1 else PROMPT
    run = talon(program, "run", "-m", model, "--chat", "--compare", "--stop", "\n", "-p", question)
    assert run["equal"], "the drafted answer is the plain one"
    ids = ",".join(map(str, run["tokens"]))
    texts = talon(program, "tokenize", "-m", model, "--decode", "--special", "-p", ids)["texts"]
    characters = characters_of(run, texts)[:len(run["text"])]
    foot = [f"{len(run['tokens'])} tokens in {run['rounds']} checks by {model}, drafts by {run['drafter']}.",
            "Tinted: drafted and right. Underlined together: the tokens of one check.",
            "Without drafts: the same tokens, one a check."]
    pathlib.Path(out).write_text(picture(question, lines_of(characters), foot))


main()
