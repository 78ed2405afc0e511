"""Conversations: lists of messages, each a dictionary with `role` and `content`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

from .errors import ArgumentError
from .texts import whole

if TYPE_CHECKING:
    from .answers import Answer
    from .model import Model

Message = Mapping[str, Any]


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


def read(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Roles and contents of `messages`. Contents are texts or lists of text parts, as OpenAI's interface has them. Raises
    ArgumentError, naming the message."""
    pairs = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, Mapping):
            raise ArgumentError(f"{where}: expected a dictionary with role and content, found {type(message).__name__}")
        role = message.get("role")
        if not isinstance(role, str):
            raise ArgumentError(f"{where}.role: expected a text, found {role!r}")
        content = _content(f"{where}.content", message.get("content"))
        pairs.append((whole(f"{where}.role", role), whole(f"{where}.content", content)))
    return pairs


def user(content: str) -> dict[str, str]:
    """A message of the user."""
    return {"role": "user", "content": content}


def system(content: str) -> dict[str, str]:
    """A message that says how to answer."""
    return {"role": "system", "content": content}


def assistant(content: str) -> dict[str, str]:
    """An answer of the model."""
    return {"role": "assistant", "content": content}


class Chat:
    """A conversation that remembers what was said.

    >>> chat = talon.Chat(model, system="Answer in one sentence.")
    >>> print(chat.say("Why does it rain?"))
    """

    def __init__(self, model: "Model", system: str | None = None, **options: Any) -> None:
        """`options`: of Model.generate, for every answer."""
        self._model = model
        self._options = options
        self.messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []

    def say(self, content: str, **options: Any) -> "Answer":
        """The model's answer to a message of the user; both are remembered, unless it fails."""
        messages = [*self.messages, user(content)]
        answer = self._model.generate(messages, stream=False, **{**self._options, **options})
        self.messages = [*messages, assistant(answer.text)]
        return answer
