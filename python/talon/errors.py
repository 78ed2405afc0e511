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


_WORDS_OF_C = re.compile(r"^talon_\w+: |\b(?:request|options)->")
_CLASSES = {1: ArgumentError, 2: TalonError, 3: TooLongError, 4: QueueFullError, 5: CancelledError, 6: MemoryError}


def from_status(status: int, message: bytes) -> Exception:
    """The exception that stands for a status of the C interface."""
    text = _WORDS_OF_C.sub("", message.decode("utf-8", "replace"))
    return _CLASSES.get(status, TalonError)(text)
