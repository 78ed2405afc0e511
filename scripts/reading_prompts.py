#!/usr/bin/env python3
"""Prompts over texts that are given with them, one JSON object on a line, for `talon train data --prompts`: to summarise a text, to answer a
question on it or from memory, to translate a sentence. A head that has seen no such prompts drafts less well there (docs/training.md).

usage: reading_prompts.py --licence LICENCE [--translate LANGUAGE] [--most N] FILE... > reading.jsonl
FILE: books as plain text (.txt, .txt.zst, a paragraph a line), questions on paragraphs in SQuAD's layout (.json), or a treebank (.conllu),
whose documents are texts; with --translate the sentences of treebanks and paragraphs are to be translated from LANGUAGE to English instead.
"""
import argparse
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUMMARISE = ["Summarize: {text}"] * 3 + ["Summarize the following text:\n\n{text}", "{text}\n\nWhat is this text about?",
                                        "Write a short summary of this text.\n\n{text}"]
WORDS = (80, 420)  # of a text: over longer ones the prompts take most of the time


def read(path: Path) -> str:
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc", path], check=True, capture_output=True, text=True).stdout
    return path.read_text(encoding="utf-8")


def texts_of(paragraphs: Iterator[str], choose: random.Random) -> Iterator[str]:
    """Paragraphs joined to texts of between WORDS words, the length drawn anew for each."""
    text, words, wanted = [], 0, choose.randint(*WORDS)
    for paragraph in paragraphs:
        text.append(paragraph)
        words += len(paragraph.split())
        if words < wanted:
            continue
        if words <= WORDS[1]:
            yield "\n".join(text)
        text, words, wanted = [], 0, choose.randint(*WORDS)


def documents(treebank: str) -> Iterator[list[str]]:
    """The paragraphs of each document, as the comments of CoNLL-U tell them."""
    for document in re.split(r"^# newdoc.*$", treebank, flags=re.M)[1:] or [treebank]:
        paragraphs = re.split(r"^# newpar.*$", document, flags=re.M)
        yield [" ".join(sentences) for paragraph in paragraphs if (sentences := re.findall(r"^# text = (.*)$", paragraph, re.M))]


def sentences_of(path: Path) -> Iterator[str]:
    if path.suffix == ".conllu":
        yield from re.findall(r"^# text = (.*)$", read(path), re.M)
        return
    for article in json.loads(read(path))["data"]:
        for paragraph in article["paragraphs"]:
            yield from re.split(r"(?<=[.!?]) (?=[A-ZÄÖÜ])", paragraph["context"])


def prompts_of(path: Path, language: str, choose: random.Random) -> Iterator[str]:
    if language:
        for sentence in sentences_of(path):
            if 4 <= len(sentence.split()) <= 60:
                yield f"Translate {language} to English: {sentence}"
        return
    if path.suffix == ".json":
        for article in json.loads(read(path))["data"]:
            contexts = [paragraph["context"] for paragraph in article["paragraphs"]]
            for number, paragraph in enumerate(article["paragraphs"]):
                asked = [question["question"] for question in paragraph["qas"]]
                around = [contexts[number], *choose.sample(contexts, min(2, len(contexts)))]
                choose.shuffle(around)
                for question in asked[:2]:
                    yield "\n".join(dict.fromkeys(around)) + "\n" + question
                yield from asked[2:]
                yield choose.choice(SUMMARISE).format(text=contexts[number])
        return
    paragraphs = documents(read(path)) if path.suffix == ".conllu" else [(line for line in read(path).splitlines() if len(line.split()) > 20)]
    for document in paragraphs:
        for text in texts_of(iter(document), choose):
            yield choose.choice(SUMMARISE).format(text=text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--licence", required=True, help="of the files, which each prompt names")
    parser.add_argument("--translate", default="", metavar="LANGUAGE", help="from this language to English")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="prompts of a file, drawn at random; 0: all")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    for path in options.files:
        choose = random.Random(path.name)
        prompts = list(prompts_of(path, options.translate, choose))
        if not prompts:
            print(f"reading_prompts.py: {path}: no text of the expected layout and length", file=sys.stderr)
        if 0 < options.most < len(prompts):
            prompts = choose.sample(prompts, options.most)
        for prompt in prompts:
            print(json.dumps({"prompt": prompt, "source": path.name, "licence": options.licence}, ensure_ascii=False))


if __name__ == "__main__":
    main()
