"""Cuts OpenAI's published description of its interface down to the paths that Talon serves, with what they refer to, and adds what
it leaves out: every path may answer with an error, completions may be streamed, and pictures have the size that the model draws.
Texts, examples and code samples are left away.

usage: trim.py openapi.yaml > openai.json; trim.py openapi.yaml images > images.json     (https://github.com/openai/openai-openapi, MIT licence; needs PyYAML)
"""
import copy
import json
import sys

import yaml

IMAGE_PATHS = {"/images/generations": ["post"]}
WITH_SIZES = ["ImagesResponse", "ImageGenCompletedEvent", "ImageGenPartialImageEvent"]
PATHS = {"/chat/completions": ["post"], "/completions": ["post"], "/responses": ["post"], "/models": ["get"], "/models/{model}": ["get"]}
PROSE = {"description", "summary", "title", "example", "examples", "externalDocs", "tags", "security", "deprecated"}


def without_prose(value, is_map_of_names=False):
    """`value` without what people read. Under `properties` every key is a field's name."""
    if isinstance(value, list):
        return [without_prose(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: without_prose(one, key == "properties") for key, one in value.items()
            if is_map_of_names or not (key in PROSE or key.startswith("x-"))}


def references(value, found):
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            found.add(reference)
        for one in value.values():
            references(one, found)
    elif isinstance(value, list):
        for one in value:
            references(one, found)
    return found


def of_events(content: dict) -> None:
    """The description gives what an event of a stream holds as if it were the stream; says that each event's data are that, as
    OpenAPI 3.2 does."""
    if stream := content.get("text/event-stream"):
        piece = {"type": "string", "contentMediaType": "application/json", "contentSchema": stream.pop("schema")}
        stream["itemSchema"] = {"type": "object", "required": ["data"],
                                "properties": {"data": {"if": {"const": "[DONE]"}, "else": piece}}}


def add_completion_events(document: dict) -> None:
    """An event is like a whole completion whose choices need not have ended."""
    schemas = document["components"]["schemas"]
    event = schemas["CreateCompletionStreamResponse"] = copy.deepcopy(schemas["CreateCompletionResponse"])
    choice = event["properties"]["choices"]["items"]["properties"]
    choice["finish_reason"] = {"anyOf": [choice["finish_reason"], {"type": "null"}]}
    content = document["paths"]["/completions"]["post"]["responses"]["200"]["content"]
    content["text/event-stream"] = {"schema": {"$ref": "#/components/schemas/CreateCompletionStreamResponse"}}


def trim(document: dict, wanted_paths: dict) -> dict:
    document = without_prose(document)
    add_completion_events(document)
    for name in WITH_SIZES:
        document["components"]["schemas"][name]["properties"]["size"] = {"type": "string"}
    paths = {path: {method: document["paths"][path][method] for method in methods} for path, methods in wanted_paths.items()}
    for path in paths.values():
        for operation in path.values():
            operation["responses"]["default"] = {
                "description": "an error",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}}
    components: dict = {}
    wanted, seen = references(paths, set()), set()
    while wanted:
        reference = wanted.pop()
        if reference in seen:
            continue
        seen.add(reference)
        _, _, kind, name = reference.split("/")
        components.setdefault(kind, {})[name] = document["components"][kind][name]
        references(components[kind][name], wanted)
    for responses in components.get("responses", {}).values():
        responses.setdefault("description", "")
    for path in paths.values():
        for operation in path.values():
            for response in operation["responses"].values():
                if "$ref" not in response:
                    response.setdefault("description", "")
                    of_events(response.get("content", {}))
    return {"openapi": document["openapi"],
            "info": {"title": "OpenAI API, the paths that Talon serves", "version": document["info"]["version"],
                     "license": {"name": "MIT", "url": "https://github.com/openai/openai-openapi/blob/main/LICENSE"},
                     "description": "Copyright (c) OpenAI. Cut down by trim.py."},
            "paths": paths, "components": {kind: dict(sorted(names.items())) for kind, names in sorted(components.items())}}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        text = yaml.safe_load(file) if not hasattr(yaml, "CSafeLoader") else yaml.load(file, yaml.CSafeLoader)
    print(json.dumps(trim(text, IMAGE_PATHS if sys.argv[2:] == ["images"] else PATHS), indent=1))
