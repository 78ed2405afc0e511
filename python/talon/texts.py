"""Texts as the library takes them."""
from __future__ import annotations

from typing import Any

from .errors import ArgumentError


def utf8(name: str, text: Any) -> str:
    """`text`, if it is one that UTF-8 can hold."""
    if not isinstance(text, str):
        raise ArgumentError(f"{name}: expected a text, found {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: expected text that UTF-8 can hold, found {text[error.start]!r} at {error.start}") from None
    return text


def whole(name: str, text: Any) -> str:
    """The same of a text that the library reads up to its first zero byte: it may have none."""
    said = utf8(name, text)
    if "\0" in said:
        zero = said.index("\0")
        raise ArgumentError(f"{name}: expected a text without zero bytes, found one at {zero}")
    return said
