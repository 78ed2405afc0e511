#!/usr/bin/env python3
"""Questions whose answers no drafter can foresee: random words, digits and bytes, code in languages that a small model does not know, and wishes
for randomness. One JSON object on a line, as Spec-Bench; the same ones each time.

usage: adversarial_questions.py > tests/data/adversarial_questions.jsonl
"""
import base64
import json
import random

DRAW = random.Random(20261122)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCRIPTS = [chr(code) for first, last in [(0x3B1, 0x3C9), (0x430, 0x44F), (0x5D0, 0x5EA)] for code in range(first, last)] + [" "]
FORTH = ["swap", "rot", "over", "2dup", "invert", "r>", ">r", "0<>", "j", "leave", "cells", "+!"]
APL = "{⍵[⍋⍵]}⌊/⍳≢⍉↑⊃,/⍵∘.+⍺ ⋄ ⎕←⌽⍕×⍨⍳17 ⋄ life←{⊃1 ⍵∨.∧3 4=+/,¯1 0 1∘.⊖¯1 0 1∘.⌽⊂⍵}"


def words(count: int) -> str:
    return " ".join("".join(DRAW.choice(LETTERS) for _ in range(DRAW.randint(2, 9))) for _ in range(count))


def digits(count: int) -> str:
    return "".join(DRAW.choice("0123456789") for _ in range(count))


def instruction() -> str:
    """Of a processor that does not exist."""
    name, register = DRAW.choice(["KVOR", "blit", "xfer.q", "sig!", "mung"]), f"%{DRAW.choice('abcdefgh')}{DRAW.randrange(64)}"
    return f"{name} {register}, #{DRAW.randrange(1 << 16):04x} ~ {DRAW.choice(['@', '&', '^'])}{words(1)}"


QUESTIONS = [
    ("random_text", words(60)),
    ("random_text", words(60) + " ?"),
    ("random_text", digits(180)),
    ("random_text", base64.b64encode(bytes(DRAW.randrange(256) for _ in range(120))).decode()),
    ("random_text", "".join(DRAW.choice(SCRIPTS) for _ in range(120))),
    ("random_text", "Continue: " + " ".join(digits(DRAW.randint(1, 6)) for _ in range(40))),
    ("unseen_code", "Go on with this program:\n" + "".join(DRAW.choice("+-<>[].,") for _ in range(160))),
    ("unseen_code", "What does this print?\n\n" + APL),
    ("unseen_code", "Explain:\n\n: zq " + " ".join(DRAW.choice(FORTH) for _ in range(40)) + " ;"),
    ("unseen_code", "Translate to C:\n\n" + "\n".join(instruction() for _ in range(14))),
    ("randomness", "Write a list of random numbers between 1 and 100000, without any pattern."),
    ("randomness", "Invent sixty words that exist in no language. Do not repeat syllables."),
    ("randomness", "Write a poem in which no two neighbouring words make sense together."),
    ("randomness", "Write as a cat walking over a keyboard would."),
]

for number, (category, turn) in enumerate(QUESTIONS):
    print(json.dumps({"question_id": 9001 + number, "category": category, "turns": [turn]}, ensure_ascii=False))
