#!/usr/bin/env python3
"""Questions over texts of about CHARACTERS characters (4.5 make a token of SmolLM2's), for drafting at long contexts: documents of Spec-Bench's
retrieval and summarisation questions one after the other, and at the end the question on the last one, or to summarise it. One JSON object on a
line, as Spec-Bench; half of them "long_rag", half "long_summarization".

usage: long_questions.py CHARACTERS [COUNT] < tests/data/spec_bench_dev.jsonl
"""
import json
import sys


def main(most: int, count: int) -> None:
    texts: dict[str, list[str]] = {"rag": [], "summarization": []}
    for line in sys.stdin:
        question = json.loads(line)
        if question["category"] in texts:
            texts[question["category"]].append(question["turns"][0])
    for number in range(count):
        kind = ("rag", "summarization")[number % 2]
        asked = texts[kind][number]
        documents, rest = [], most - len(asked)
        for other in texts[kind][number + 1:] + texts[kind][:number]:
            if rest <= 0:
                break
            document = other.removeprefix("Summarize: ") if kind == "summarization" else other.rpartition("\n")[0]
            documents.append(document[:rest])
            rest -= len(documents[-1])
        print(json.dumps({"question_id": f"{kind}-{number}", "category": f"long_{kind}", "turns": ["\n\n".join(documents + [asked])]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4)
