"""What a server says on each of its paths, whole or streamed, as one text that can be compared."""
import dataclasses
import json

from asked import MESSAGE, RESPONSE


@dataclasses.dataclass
class Choice:
    text: str = ""
    calls: list = dataclasses.field(default_factory=list)  # name and arguments
    logprobs: list = dataclasses.field(default_factory=list)  # of each token: its text, its own, the best
    tokens: list = dataclasses.field(default_factory=list)  # where they were asked for


def to_text(choices: list[Choice]) -> str:
    return json.dumps([dataclasses.asdict(one) for one in choices])


def _add_message(message: dict, choice: Choice) -> None:
    """A message, or the part of one that an event brings."""
    choice.text += message.get("content") or ""
    for place, call in enumerate(message.get("tool_calls") or []):
        place = call.get("index", place)
        while len(choice.calls) <= place:
            choice.calls.append(["", ""])
        for part, name in enumerate(("name", "arguments")):
            choice.calls[place][part] += call["function"].get(name) or ""


def _add_logprobs(logprobs: dict, choice: Choice) -> None:
    """In the shape of chats or of completions."""
    for token in logprobs.get("content") or []:
        choice.logprobs.append([token["token"], token["logprob"], [[top["token"], top["logprob"]] for top in token["top_logprobs"]]])
    for token, own, top in zip(*(logprobs.get(name) or [] for name in ("tokens", "token_logprobs", "top_logprobs"))):
        choice.logprobs.append([token, own, sorted(top.items())])


def _add_choices(answer: dict, choices: list[Choice]) -> None:
    for one in answer["choices"]:
        while len(choices) <= one["index"]:
            choices.append(Choice())
        choice = choices[one["index"]]
        choice.text += one.get("text") or ""
        _add_message(one.get("message") or one.get("delta") or {}, choice)
        _add_logprobs(one.get("logprobs") or {}, choice)
        choice.tokens += one.get("token_ids") or []


def whole(path: str, answer: dict) -> list[Choice]:
    choices: list[Choice] = []
    if path == RESPONSE:
        parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        return [Choice("".join(part["text"] for part in parts))]
    if path == MESSAGE:
        return [Choice("".join(block.get("text", "") for block in answer["content"]))]
    _add_choices(answer, choices)
    return choices


def joined(path: str, lines) -> list[Choice]:
    """Of the lines of a stream. Throws ValueError for an error within it."""
    choices = [Choice()] if path in (RESPONSE, MESSAGE) else []
    for line in lines:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        kind = event.get("type", "")
        if event.get("error") or kind == "response.failed":
            raise ValueError(f"an error within a stream: {line[:300]}")
        if "choices" in event:
            _add_choices(event, choices)
        elif kind == "response.output_text.delta":
            choices[0].text += event["delta"]
        elif kind == "content_block_delta":
            choices[0].text += event["delta"].get("text", "")
    return choices
