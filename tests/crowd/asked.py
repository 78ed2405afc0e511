"""Requests of a crowd: every drafter, sampler, grammar, tool, path and length; and the command line of `talon run` for each."""
import dataclasses
import json
import pathlib
import random

DRAFTERS = ["auto", "none", "suffix", "ngram", "eagle3", "eagle2", "medusa", "lookahead", "jacobi", "eagle3+suffix", "ngram+suffix"]
POLICIES = [None, "fixed"]
TEMPERATURES = [0, 0, 0.5, 0.8, 1, 1.3]
CHAT, COMPLETION, RESPONSE, MESSAGE = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
PATHS = [CHAT, COMPLETION, CHAT, RESPONSE, CHAT, MESSAGE]
TOPICS = ["rain", "a fox", "bread", "the moon", "trains", "bees", "an old map", "salt", "music", "snow", "a lighthouse", "rivers", "chess",
          "iron", "a garden", "clocks", "wool", "sand", "paper", "wind"]
FORMS = ["Tell a short story about {}.", "Explain {} to a child.", "List five facts about {}.", "Write a poem on {}.",
         "Write a Python function that counts {}.", "What is the history of {}?", "Compare {} and fire.", "Name a song about {}.",
         "Write a letter to a friend who loves {}.", "Give three reasons to like {}."]
SAMPLERS = [{}, {"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.05}, {"repetition_penalty": 1.2}, {"presence_penalty": 0.5},
            {"frequency_penalty": 0.4}, {"logit_bias": {"28": 4, "30": -100}}, {"typical_p": 0.8}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "size": {"enum": ["small", "large"]},
                                           "legs": {"type": "integer", "minimum": 0, "maximum": 8}},
          "required": ["name", "size", "legs"], "additionalProperties": False}
REGEX = r"[A-Z][a-z]{2,9}( [a-z]{2,9}){3,8}\."
GRAMMAR = 'start: item ("\\n" item){1,4}\nitem: "- " /[a-z]{3,10}/ (" " /[a-z]{2,10}/){0,3}\n'
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Looks something up.", "parameters": {
    "type": "object", "properties": {"what": {"type": "string", "maxLength": 24}, "where": {"enum": ["book", "map", "net"]}},
    "required": ["what", "where"], "additionalProperties": False}}}

OPTIONS = {"temperature": "--temperature", "seed": "--seed", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p",
           "typical_p": "--typical-p", "repetition_penalty": "--repeat-penalty", "presence_penalty": "--presence-penalty",
           "frequency_penalty": "--frequency-penalty"}
# What other paths call a field of a chat.
NAMES = {RESPONSE: {"messages": "input", "max_tokens": "max_output_tokens"}, MESSAGE: {"stop": "stop_sequences"}}


def call_grammar() -> str:
    """What one call of TOOL that must be made looks like, of a model whose template knows no tools (docs/serving/tools.md)."""
    function = TOOL["function"]
    spaces = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    begin = json.dumps(f'{{"name": "{function["name"]}", "arguments": ')
    return (f'start: "<tool_call>\\n" {begin} arguments "}}" "\\n</tool_call>"\n'
            f'arguments: %json {json.dumps(function["parameters"] | {"x-guidance": spaces})}\n')


@dataclasses.dataclass
class Request:
    number: int
    body: dict  # of /v1/chat/completions, or, with token ids as `prompt`, of /v1/completions; without what may not change the text
    talon: dict
    way: str  # whole, stream, slow or leaves
    path: str = CHAT
    fills_context: bool = False

    def fields(self) -> dict:
        """Of its path; of a completion with the messages that make its prompt."""
        names = NAMES.get(self.path, {})
        fields = {names.get(name, name): value for name, value in self.body.items()}
        if self.path == COMPLETION and "logprobs" in fields:
            fields["logprobs"] = fields.pop("top_logprobs")
        return fields

    def rendered(self) -> dict:
        """What /apply-template makes the prompt of."""
        return {name: self.body[name] for name in ("messages", "tools", "tool_choice") if name in self.body}

    def says_more(self) -> bool:
        """Than a text which `talon run` has, too."""
        return any(name in self.body for name in ("tools", "n", "logprobs"))

    def command(self, folder: pathlib.Path, prompt: str) -> list[str]:
        """Options of `talon run` that ask the same. prompt: of a request with tools, as the template writes it."""
        body = self.body
        options = ["-n", str(body["max_tokens"]), "-d", "none"]
        if "prompt" in body:
            options.append("--prompt-ids=" + ",".join(map(str, body["prompt"])))
        elif "tools" in body:
            options.append("--prompt=" + prompt)
        else:
            options += ["--chat", "--prompt=" + body["messages"][0]["content"]]
        for field, option in OPTIONS.items():
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
        grammar = call_grammar() if body.get("tool_choice") == "required" else outputs.get("grammar")
        for option, text in (("--grammar", grammar), ("--json-schema", json.dumps(outputs["json"]) if "json" in outputs else None)):
            if text is not None:
                path = folder / f"{option[2:]}.txt"
                path.write_text(text)
                options += [option, str(path)]
        return options


def _length(number: int) -> int:
    if number % 40 == 39:
        return 400
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
        body["return_token_ids"] = True
    elif number % 7 == 3:
        body["stop"] = ["\n\n", " the end"]
    if number % 40 == 39 and kind not in (2, 4, 5, 8, 10):
        body["ignore_eos"] = True


def _path(number: int, body: dict) -> str:
    """And what the path alone has."""
    path = CHAT if "tools" in body else PATHS[number // 5 % len(PATHS)]
    if path in (CHAT, COMPLETION):
        if number % 13 == 6:
            body["n"] = 2
        if number % 9 == 2:
            body |= {"logprobs": True, "top_logprobs": 2}
    return path


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
        body |= SAMPLERS[number // 2 % len(SAMPLERS)]
        _form(number, body)
        path = _path(number, body)
        talon = {"drafter": DRAFTERS[number % len(DRAFTERS)]}
        if policy := POLICIES[number // 3 % len(POLICIES)]:
            talon["policy"] = policy
        made.append(Request(number, body, talon, ["whole", "stream", "slow", "stream", "leaves"][number % 5], path))
    return made


def long_requests(context: int, tokens: list[int]) -> list[Request]:
    """Prompts and answers up to the end of the context. tokens: at least as many as it has."""

    def request(number: int, begin: int, length: int, most: int, drafter: str, way: str, **more) -> Request:
        body = {"prompt": tokens[begin:begin + length], "max_tokens": most, "ignore_eos": True, "seed": number, "temperature": 0} | more
        return Request(number, body, {"drafter": drafter}, way, COMPLETION, True)

    return [request(1000, 0, context - 40, context, "auto", "whole"),
            request(1001, 300, context - 300, 299, "suffix", "stream", temperature=0.8, top_p=0.95),
            request(1002, 100, context // 2, 300, "eagle3", "slow", temperature=1),
            request(1003, 50, 48, context, "eagle3+suffix", "whole")]


def spread(long: list[Request], among: list[Request]) -> list[Request]:
    """Long requests at even distances among the others."""
    crowd = list(among)
    for number, one in enumerate(long):
        crowd.insert((2 * number + 1) * len(crowd) // (2 * len(long)), one)
    return crowd
