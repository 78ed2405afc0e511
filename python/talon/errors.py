"""What can go wrong. Every message says what was being done, what was expected and what was found."""
from __future__ import annotations

import re


class TalonError(RuntimeError):
    """A file, a machine or a component failed; the base of all others."""


class ArgumentError(TalonError, ValueError):
    """An argument that cannot be meant; the message names it."""


class TooLongError(ArgumentError):
    """A prompt that the context or the cache cannot hold."""


class QueueFullError(TalonError):
    """The engine takes no more requests for the moment."""


class CancelledError(TalonError):
    """The work was cancelled."""


# What the C interface calls otherwise than this package does: fields of requests and options, and arguments of its functions.
_FIELDS = {"method": "drafter", "stop_texts": "stop", "message_entries": "messages"}
_ARGUMENTS = {"detokenize": {"tokens": "ids"}, "model_logits": {"tokens": "ids", "count": "ids"}}
_CLASSES = {1: ArgumentError, 2: TalonError, 3: TooLongError, 4: QueueFullError, 5: CancelledError, 6: MemoryError}


def from_status(status: int, message: bytes) -> Exception:
    """The exception that stands for a status of the C interface."""
    return _CLASSES.get(status, TalonError)(_in_words_of_python(message.decode("utf-8", "replace")))


def _in_words_of_python(text: str) -> str:
    """`text` without the function's name, and with the argument that the user wrote."""
    if call := re.match(r"talon_(\w+): ", text):
        names = _ARGUMENTS.get(call[1], {})
        text = re.sub(r"^\w+(?=[:\[])", lambda argument: names.get(argument[0], argument[0]), text[call.end():])
    text = re.sub(r"\b(?:request|options)->(\w+)", lambda field: _FIELDS.get(field[1], field[1]), text)
    return re.sub(r"^drafter: (?=drafter: )", "", text)  # a drafter that is none, of a method
