"""Visits of the paths that need a chat template: chats, tools, schemas, and the interfaces of responses and messages."""
from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator

from traffic import METHODS, SCHEMA, Question, Site, Wrong, read_answer

CHAT, RESPONSE, MESSAGE = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PARAMETERS = {"type": "object", "properties": {"what": {"enum": ["rain", "snow"]}}, "required": ["what"], "additionalProperties": False}
MOST_OF_A_CALL = 120  # tokens, more than it takes
FORMATS = {CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}},
           RESPONSE: {"text": {"format": {"type": "json_schema", "name": "animal", "schema": SCHEMA}}},
           MESSAGE: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}}
TOOLS = {CHAT: {"tools": [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}], "tool_choice": "required",
                "parallel_tool_calls": False},
         RESPONSE: {"tools": [{"type": "function", "name": "look", "parameters": PARAMETERS}], "tool_choice": "required",
                    "parallel_tool_calls": False},
         MESSAGE: {"tools": [{"name": "look", "input_schema": PARAMETERS}],
                   "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}}


def fields_of(path: str, question: Question, length: int) -> dict:
    names = {CHAT: ("messages", "max_tokens"), RESPONSE: ("input", "max_output_tokens"), MESSAGE: ("messages", "max_tokens")}[path]
    return {names[0]: [{"role": "user", "content": question.prompt}], names[1]: length, "temperature": question.temperature,
            "seed": question.seed}


def text_of(path: str, answer: dict) -> str:
    if path == CHAT:
        return answer["choices"][0]["message"]["content"] or ""
    if path == RESPONSE:
        return "".join(part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"])
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


def calls_of(path: str, answer: dict) -> list[tuple[str, dict]]:
    if path == CHAT:
        calls = [call["function"] for call in answer["choices"][0]["message"].get("tool_calls") or []]
        return [(call["name"], json.loads(call["arguments"])) for call in calls]
    if path == RESPONSE:
        return [(item["name"], json.loads(item["arguments"])) for item in answer["output"] if item["type"] == "function_call"]
    return [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]


def streamed(response: http.client.HTTPResponse) -> Iterator[str]:
    """The texts of a stream on any of the paths."""
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        kind = event.get("type", "")
        if event.get("error") or kind == "response.failed":
            raise Wrong(f"an error within a stream: {event}")
        if kind == "response.output_text.delta":
            yield event["delta"]
        elif kind == "content_block_delta":
            yield event["delta"].get("text", "")
        for choice in event.get("choices", []):
            yield choice["delta"].get("content") or ""


def chat(site: Site, draw: random.Random, question: Question) -> None:
    """On one of the three paths, whole or streamed; `question` says whether it keeps to a schema."""
    path = draw.choice([CHAT, RESPONSE, MESSAGE])
    body = fields_of(path, question, question.length) | {"talon": draw.choice(METHODS)}
    if question.form == "schema":
        body |= FORMATS[path]
    if draw.random() < 0.5:
        if answer := read_answer(site, path, body):
            site.compare(question, text_of(path, answer), f"of {path}, {body['talon']}")
        return
    response = site.post(json.dumps(body | {"stream": True}).encode(), path)
    if response.status == 429:
        return site.count("full")
    if response.status != 200:
        raise Wrong(f"{path}: {response.status} {response.read()[:300]!r}")
    site.compare(question, "".join(streamed(response)), f"streamed by {path}, {body['talon']}")


def call_a_tool(site: Site, draw: random.Random, question: Question) -> None:
    """It calls what it must, as its schema says, and the same on each path."""
    path = draw.choice([CHAT, RESPONSE, MESSAGE])
    body = fields_of(path, question, MOST_OF_A_CALL) | TOOLS[path] | {"talon": draw.choice(METHODS)}
    answer = read_answer(site, path, body)
    if answer is None:
        return
    calls = calls_of(path, answer)
    if len(calls) != 1 or calls[0][0] != "look" or calls[0][1] not in ({"what": "rain"}, {"what": "snow"}):
        raise Wrong(f"{path}: expected a call of look, found {calls}")
    site.same((question.prompt, question.temperature, question.seed, "call"), calls, f"of {path}, {body['talon']}")
    site.count("equal call")


VISITS = [chat] * 45 + [call_a_tool] * 15
