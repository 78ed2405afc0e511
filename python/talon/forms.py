"""What an answer must look like, as the library takes it."""
from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from .errors import ArgumentError
from .texts import utf8, whole


def field_of(json_schema: Any, regex: Any, grammar: Any, choices: Any) -> dict[str, str]:
    """The field of a request for the one that is not None; none if all are. Raises ArgumentError, naming the argument."""
    given = {"json_schema": json_schema, "regex": regex, "grammar": grammar, "choices": choices}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise ArgumentError(f"{asked[1]}: expected one form of the answer, found {asked[0]} as well")
    return {name: _READERS[name](name, given[name]) for name in asked}


def merged(usual: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The usual options of a chat's answers with those of one answer, whose form takes the place of the usual one."""
    if any(own.get(name) is not None for name in _READERS):
        usual = {name: value for name, value in usual.items() if name not in _READERS}
    return {**usual, **own}


def _schema(name: str, schema: Any) -> str:
    if isinstance(schema, str):
        return whole(name, schema)
    if not isinstance(schema, Mapping) and schema is not True:
        raise ArgumentError(f"{name}: expected a dictionary, True, or a schema as text, found {type(schema).__name__}")
    try:
        return json.dumps(dict(schema) if isinstance(schema, Mapping) else True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{name}: expected values that JSON can hold, found one that it cannot: {error}") from None


def _texts(name: str, texts: Any) -> str:
    if isinstance(texts, (str, bytes, bytearray)) or not isinstance(texts, Sequence):
        raise ArgumentError(f"{name}: expected a list of texts, found {type(texts).__name__}")
    return json.dumps([utf8(f"{name}[{place}]", text) for place, text in enumerate(texts)])


_READERS = {"json_schema": _schema, "regex": whole, "grammar": whole, "choices": _texts}
