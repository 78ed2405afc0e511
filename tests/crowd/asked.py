"""Requests of a crowd: every drafter, sampler, grammar, tool and length; and the command line of `talon run` for each."""
import dataclasses
import json
import pathlib
import random

DRAFTERS = ["auto", "none", "suffix", "ngram", "eagle3", "eagle2", "medusa", "lookahead", "jacobi", "eagle3+suffix", "ngram+suffix"]
POLICIES = [None, "fixed"]
TEMPERATURES = [0, 0, 0.5, 0.8, 1, 1.3]
TOPICS = ["rain", "a fox", "bread", "the moon", "trains", "bees", "an old map", "salt", "music", "snow", "a lighthouse", "rivers", "chess",
          "iron", "a garden", "clocks", "wool", "sand", "paper", "wind"]
FORMS = ["Tell a short story about {}.", "Explain {} to a child.", "List five facts about {}.", "Write a poem on {}.",
         "Write a Python function that counts {}.", "What is the history of {}?", "Compare {} and fire.", "Name a song about {}.",
         "Write a letter to a friend who loves {}.", "Give three reasons to like {}."]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "size": {"enum": ["small", "large"]},
                                           "legs": {"type": "integer", "minimum": 0, "maximum": 8}},
          "required": ["name", "size", "legs"], "additionalProperties": False}
REGEX = r"[A-Z][a-z]{2,9}( [a-z]{2,9}){3,8}\."
GRAMMAR = 'start: item ("\\n" item){1,4}\nitem: "- " /[a-z]{3,10}/ (" " /[a-z]{2,10}/){0,3}\n'
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Looks something up.", "parameters": {
    "type": "object", "properties": {"what": {"type": "string", "maxLength": 24}, "where": {"enum": ["book", "map", "net"]}},
    "required": ["what", "where"], "additionalProperties": False}}}


@dataclasses.dataclass
class Request:
    number: int
    body: dict  # of /v1/chat/completions, without what may not change the text
    talon: dict
    way: str  # whole, stream, slow or leaves

    def command(self, folder: pathlib.Path) -> list[str] | None:
        """Options of `talon run` that ask the same; None: it has no tools."""
        body = self.body
        if "tools" in body:
            return None
        options = ["--chat", "-p", body["messages"][0]["content"], "-n", str(body["max_tokens"]), "-d", "none"]
        names = {"temperature": "--temperature", "seed": "--seed", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p",
                 "repetition_penalty": "--repeat-penalty", "presence_penalty": "--presence-penalty",
                 "frequency_penalty": "--frequency-penalty"}
        for field, option in names.items():
            if field in body:
                options += [option, str(body[field])]
        for stop in body.get("stop", []):
            options += ["--stop", stop]
        for token, bias in body.get("logit_bias", {}).items():
            options += ["--logit-bias", f"{token}:{bias}"]
        if "ignore_eos" in body:
            options.append("--ignore-end")
        outputs = body.get("structured_outputs", {})
        if "regex" in outputs:
            options += ["--regex", outputs["regex"]]
        for option, text in (("--grammar", outputs.get("grammar")), ("--json-schema", json.dumps(outputs["json"]) if "json" in outputs else None)):
            if text is not None:
                path = folder / f"{option[2:]}.txt"
                path.write_text(text)
                options += [option, str(path)]
        return options


def _length(number: int) -> int:
    if number % 40 == 39:
        return 700
    return 1 + (number * 29) % 90


def _form(number: int, body: dict) -> None:
    kind = number % 12
    if kind == 2:
        body["structured_outputs"] = {"regex": REGEX}
    elif kind == 5:
        body["structured_outputs"] = {"json": SCHEMA}
    elif kind == 8:
        body["structured_outputs"] = {"grammar": GRAMMAR}
    elif kind in (4, 10):
        body["tools"] = [TOOL]
        body["tool_choice"] = "required" if kind == 4 else "auto"
        body["parallel_tool_calls"] = False
    elif number % 7 == 3:
        body["stop"] = ["\n\n", " the end"]
    if number % 40 == 39 and kind not in (2, 4, 5, 8, 10):
        body["ignore_eos"] = True


def requests(count: int, filler: str) -> list[Request]:
    """`filler`: a text of which some prompts hold a part."""
    made = []
    draw = random.Random(5)
    for number in range(count):
        prompt = FORMS[number // len(TOPICS) % len(FORMS)].format(TOPICS[number % len(TOPICS)])
        if number % 8 == 6:
            begin = draw.randrange(len(filler) - 6000)
            prompt = f"{filler[begin:begin + draw.randrange(200, 4000)]}\n\n{prompt}"
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": _length(number), "seed": number,
                "temperature": TEMPERATURES[number % len(TEMPERATURES)]}
        samplers = [{}, {"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.05}, {"repetition_penalty": 1.2}, {"presence_penalty": 0.5},
                    {"frequency_penalty": 0.4}, {"logit_bias": {"28": 4, "30": -100}}]
        body |= samplers[number // 2 % len(samplers)]
        _form(number, body)
        talon = {"drafter": DRAFTERS[number % len(DRAFTERS)]}
        if policy := POLICIES[number // 3 % len(POLICIES)]:
            talon["policy"] = policy
        made.append(Request(number, body, talon, ["whole", "stream", "slow", "stream", "leaves"][number % 5]))
    return made
