"""Conversations: lists of messages, each a dictionary with `role`, `content` and what else the model's template reads."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, Union

from . import forms
from .errors import ArgumentError
from .texts import whole

if TYPE_CHECKING:
    from .answers import Answer
    from .model import Model

Message = Mapping[str, Any]
Content = Union[str, Sequence[Mapping[str, Any]]]
"""A text, or its parts: {"type": "text", "text": ...}."""


def _content(where: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        raise ArgumentError(f"{where}: expected a text or a list of text parts, found {type(content).__name__}")
    texts = []
    for place, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ArgumentError(f"{where}[{place}]: expected a part {{'type': 'text', 'text': ...}}, found {part!r}")
        texts.append(part["text"])
    return "".join(texts)


def _call(call: Any) -> Any:
    """A call as templates take it: with its arguments as an object, not as the text of one."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def _entries(where: str, message: Message) -> dict[str, Any]:
    """What a message has besides its role and content."""
    entries = {key: value for key, value in message.items() if key not in ("role", "content")}
    calls = entries.get("tool_calls")
    if calls is None:
        entries.pop("tool_calls", None)
    elif isinstance(calls, Sequence) and not isinstance(calls, str):
        entries["tool_calls"] = [_call(call) for call in calls]
    else:
        raise ArgumentError(f"{where}.tool_calls: expected a list of calls, found {calls!r}")
    return entries


def read(messages: Sequence[Message]) -> tuple[list[tuple[str, str]], str | None]:
    """Roles and contents of `messages`, and as JSON what else they have (`tool_calls`, `tool_call_id`, `reasoning_content`), for
    the template. Contents are texts or lists of text parts, as OpenAI's interface has them, and may be None beside `tool_calls`.
    Raises ArgumentError, naming the message."""
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Iterable):
        raise ArgumentError(f"messages: expected a list of messages, found {type(messages).__name__}")
    pairs, entries = [], []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, Mapping):
            raise ArgumentError(f"{where}: expected a dictionary with role and content, found {type(message).__name__}")
        role = message.get("role")
        if not isinstance(role, str):
            raise ArgumentError(f"{where}.role: expected a text, found {role!r}")
        entries.append(_entries(where, message))
        content = "" if entries[-1].get("tool_calls") and message.get("content") is None else _content(f"{where}.content", message.get("content"))
        pairs.append((whole(f"{where}.role", role), whole(f"{where}.content", content)))
    try:
        return pairs, json.dumps(entries, allow_nan=False) if any(entries) else None
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"messages: expected entries that JSON can hold, found one that it cannot: {error}") from None


def user(content: Content) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": content}


def system(content: Content) -> dict[str, Any]:
    """A message that says how to answer."""
    return {"role": "system", "content": content}


def assistant(content: Content) -> dict[str, Any]:
    """An answer of the model."""
    return {"role": "assistant", "content": content}


def _without_stream(options: dict[str, Any]) -> dict[str, Any]:
    if "stream" in options:
        raise ArgumentError("stream: expected no such option of a chat, whose answers are whole, found one")
    return options


class Chat:
    """A conversation that remembers what was said.

    >>> chat = talon.Chat(model, system="Answer in one sentence.")
    >>> print(chat.say("Why does it rain?"))
    >>> print(chat.say("Is it raining?", choices=["yes", "no"]))
    """

    def __init__(self, model: "Model", system: Content | None = None, **options: Any) -> None:
        """`options`: of Model.generate but `stream`, for every answer that does not say otherwise."""
        self._model = model
        self._options = _without_stream(options)
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []

    def say(self, content: Content, **options: Any) -> "Answer":
        """The model's answer to a message of the user; both are remembered, unless it fails."""
        messages = [*self.messages, user(content)]
        answer = self._model.generate(messages, stream=False, **forms.merged(self._options, _without_stream(options)))
        self.messages = [*messages, assistant(answer.text)]
        return answer
