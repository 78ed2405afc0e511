#!/usr/bin/env python3
"""Beginnings of children's stories, one JSON object on a line, for `talon train data --prompts` with stories models.

usage: story_prompts.py [COUNT] > stories.jsonl
"""
import itertools
import json
import random
import sys

NAMES = ["Lily", "Tom", "Ben", "Anna", "Max", "Sue", "Tim", "Mia", "Sam", "Lucy", "Jack", "Sara", "Bob", "Jane", "Leo"]
ANIMALS = ["cat", "dog", "bird", "rabbit", "bear", "fish", "mouse", "frog", "fox", "duck", "horse", "lion"]
TRAITS = ["little", "happy", "sad", "brave", "curious", "kind", "shy", "big", "funny", "lonely", "clever"]
PLACES = ["park", "forest", "garden", "beach", "house", "farm", "school", "kitchen", "river", "village"]
THINGS = ["ball", "book", "cake", "hat", "toy car", "flower", "kite", "box", "stone", "drum", "boat", "lamp"]
OPENINGS = [
    "",
    "Once upon a time",
    "Once upon a time, there was a {trait} {animal} named {name}.",
    "One day, {name} went to the {place}",
    "{name} had a {trait} {animal}. They liked to",
    "{name} and {other} were playing in the {place}. They saw a",
    "In a {place}, there lived a {trait} {animal}.",
    "{name} found a {thing} in the {place}.",
    "\"Look at my {thing}!\" said {name}.",
    "One morning, a {trait} {animal} woke up and",
    "{name} wanted a new {thing}, but",
    "The {animal} was very {trait} because",
]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    choose = random.Random(1)
    seen = set()
    for opening in itertools.islice(itertools.cycle(OPENINGS), 100 * count):
        name, other = choose.sample(NAMES, 2)
        text = opening.format(name=name, other=other, animal=choose.choice(ANIMALS), trait=choose.choice(TRAITS),
                              place=choose.choice(PLACES), thing=choose.choice(THINGS))
        if text in seen:
            continue
        seen.add(text)
        print(json.dumps({"prompt": text, "source": "scripts/story_prompts.py", "licence": "Apache-2.0"}))
        if len(seen) == count:
            return


if __name__ == "__main__":
    main()
