#!/usr/bin/env python3
"""Prompts of the icon data set (scripts/icons.mjs): the words of each picture that the model knows, at most five, and
its style. Writes FOLDER/prompts.jsonl, of pictures that are trained on, and FOLDER/held_out.jsonl, of the others. With
categories, only of their pictures, as `talon train image model --categories` learns them: words that no picture of
theirs to train on has are unknown.

usage: scripts/icon_prompts.py FOLDER [NAME,...]"""

import json
import pathlib
import sys

MOST_WORDS = 5  # of a prompt


def prompt_of(picture: dict, known: set[str]) -> str:
    """What asks for the picture; empty if the model knows none of its words."""
    words = [word for word in picture["words"] if word in known][:MOST_WORDS]
    return " ".join([*words, picture["style"]]) if words else ""


def write_aside(path: pathlib.Path, lines: list[str]) -> None:
    aside = path.with_name(path.name + ".tmp")
    aside.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    aside.rename(path)


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print("usage: scripts/icon_prompts.py FOLDER [NAME,...]", file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    lines = (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    pictures = [json.loads(line) for line in lines]
    known = set(json.loads((folder / "words.json").read_text(encoding="utf-8"))["words"])
    if len(sys.argv) == 3:
        categories = sys.argv[2].split(",")
        pictures = [picture for picture in pictures if picture["category"] in categories]
        known &= {word for picture in pictures if picture["split"] == "train" for word in picture["words"]}
    prompts: dict[str, list[str]] = {"train": [], "held-out": []}
    for picture in pictures:
        prompt = prompt_of(picture, known)
        if prompt:
            prompts[picture["split"]].append(json.dumps({"prompt": prompt, "source": picture["style"]}))
    for name, split in (("prompts.jsonl", "train"), ("held_out.jsonl", "held-out")):
        write_aside(folder / name, list(dict.fromkeys(prompts[split])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
