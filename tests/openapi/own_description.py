"""A description of the paths that OpenAI's does not have: Anthropic's messages, tokens and texts, the load. It is as strict as the
server: what it does not allow must be refused, so that a wrong field which is answered with 200 is a failure. A field that is null is one
that is absent, and fields that are not listed are ignored, as the server has both; nothing forbids them here. Where the server reads a
field only beside others (`schema` in a format of kind `text`) it is described for those alone.

usage: own_description.py > own.json     (run.py makes it, too)
"""
import json

MODEL, CONTEXT, VOCABULARY = "tiny", 512, 512  # what run.py serves
MOST_INT = 2**31 - 1
TEXT, FLAG, OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.:/-]{1,128}$"}
JSON = "application/json"


def or_null(schema: dict) -> dict:
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def integer(least: int, most: int) -> dict:
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least: float, most: float) -> dict:
    return {"type": "number", "minimum": least, "maximum": most}


def array(items: dict, **more) -> dict:
    return {"type": "array", "items": items, **more}


def word(*words: str | None) -> dict:
    return {"enum": list(words)}


def a(required: dict, **optional: dict) -> dict:
    """An object. Optional fields may be null."""
    fields = required | {name: or_null(schema) for name, schema in optional.items()}
    return {"type": "object", "required": list(required), "properties": fields}


def any_of(*schemas: dict) -> dict:
    return {"anyOf": list(schemas)}


def ref(name: str) -> dict:
    return {"$ref": f"#/components/schemas/{name}"}


TEXT_PART = a({"type": word("text"), "text": TEXT})
TEXTS = any_of(TEXT, array(TEXT_PART, maxItems=1024))
MODEL_FIELD = {"model": word(MODEL, "", None)}

# Of Anthropic's interface.
RESULT = a({"type": word("tool_result")}, tool_use_id=TEXT, content=TEXTS, is_error=FLAG)
USE = a({"type": word("tool_use"), "name": TEXT}, id=TEXT, input=OBJECT)
THOUGHT = a({"type": word("thinking")}, thinking=TEXT)
HIDDEN_THOUGHT = a({"type": word("redacted_thinking")})
TURN = any_of(a({"role": word("user"), "content": any_of(TEXT, array(any_of(TEXT_PART, RESULT)))}),
              a({"role": word("assistant"), "content": any_of(TEXT, array(any_of(TEXT_PART, USE, THOUGHT, HIDDEN_THOUGHT)))}),
              a({"role": word("system"), "content": TEXTS}))
OTHER_TOOL = {"type": "object", "required": ["type"],  # is left out, as if it were not offered
              "properties": {"type": {"type": "string", "not": word("custom", "function")}}}
MESSAGE_TOOL = any_of({"type": "object", "required": ["name"], "properties": {
    "type": word("custom", None), "name": NAME, "description": or_null(TEXT), "strict": or_null(FLAG), "input_schema": or_null(OBJECT)}},
    OTHER_TOOL)
FORMAT = any_of(a({"type": word("text")}),
                a({"type": word("json_object", "json_schema")}, name=TEXT, description=TEXT, strict=FLAG,
                  schema=any_of(OBJECT, word(True))))
MESSAGE_CHOICE = any_of(word("none", "auto"), a({"type": word("auto", "any", "tool", "none")}))
EFFORT = word("none", "minimal", "low", "medium", "high", "xhigh", "max")
OF_MESSAGES = {"system": TEXTS, "tools": array(MESSAGE_TOOL, maxItems=256), "tool_choice": MESSAGE_CHOICE, "parallel_tool_calls": FLAG,
               "thinking": a({"type": word("enabled", "adaptive", "disabled")}, budget_tokens=integer(0, MOST_INT),
                             display=word("summarized", "omitted")),
               "output_config": a({}, format=FORMAT, effort=EFFORT)}
DRAFTERS = ["", "auto", "none", "suffix", "ngram", "lookahead", "jacobi"]
POLICIES = ["", "fixed"]
RULES = ["", "follow"]
TALON = {**a({}, drafter=word(*DRAFTERS), policy=word(*POLICIES), verify=word(*RULES),
             deadline_ms=integer(1, 24 * 3600 * 1000), metrics=FLAG, trace=FLAG), "additionalProperties": False}
STOP = {"type": "string", "minLength": 1}
SAMPLING = {"temperature": number(0, 100), "top_p": number(0, 1), "top_k": integer(-1, MOST_INT), "min_p": number(0, 1),
            "typical_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "presence_penalty": number(-100, 100),
            "frequency_penalty": number(-100, 100), "repetition_penalty": number(0.01, 100), "seed": {"type": "integer"},
            "stop_sequences": any_of(STOP, array(STOP, maxItems=16)), "stream": FLAG, "ignore_eos": FLAG,
            "stream_options": a({}, include_usage=FLAG), "metadata": a({}, user_id=TEXT), "cache_salt": TEXT,
            "priority": integer(-1_000_000, 1_000_000), "talon": TALON}
MESSAGES = array(ref("Turn"), minItems=1, maxItems=1024)
USAGE = a({name: integer(0, MOST_INT) for name in ("input_tokens", "output_tokens", "cache_read_input_tokens",
                                                   "cache_creation_input_tokens")})
ENDS = word("end_turn", "max_tokens", "stop_sequence", "tool_use")
BLOCK = any_of(TEXT_PART, a({"type": word("tool_use"), "id": TEXT, "name": TEXT, "input": OBJECT}),
               a({"type": word("thinking"), "thinking": TEXT, "signature": TEXT}))
ANSWER = {"id": TEXT, "type": word("message"), "role": word("assistant"), "model": word(MODEL), "content": array(BLOCK), "usage": USAGE}
DELTA = a({"type": word("text_delta", "thinking_delta", "signature_delta", "input_json_delta")})
PLACE = {"index": integer(0, MOST_INT)}
EVENT = any_of(a({"type": word("message_start"), "message": a(ANSWER | {"stop_reason": word(None), "stop_sequence": word(None)})}),
               a({"type": word("content_block_start"), "content_block": BLOCK} | PLACE),
               a({"type": word("content_block_delta"), "delta": DELTA} | PLACE),
               a({"type": word("content_block_stop")} | PLACE),
               a({"type": word("message_delta"), "delta": a({"stop_reason": ENDS, "stop_sequence": or_null(TEXT)}), "usage": USAGE}),
               a({"type": word("message_stop", "ping")}), ref("MessageError"))

# Of chats.
CALL = a({"function": a({"name": TEXT}, arguments=any_of(TEXT, OBJECT))}, id=TEXT)
REFUSAL = a({"type": word("refusal"), "refusal": TEXT})
CHAT_MESSAGE = any_of(a({"role": word("system", "developer", "user"), "content": TEXTS}),
                      a({"role": word("assistant")}, content=any_of(TEXT, array(any_of(TEXT_PART, REFUSAL), maxItems=1024)),
                        reasoning_content=TEXT, reasoning=TEXT, tool_calls=array(CALL, maxItems=1024)),
                      a({"role": word("tool"), "content": TEXTS}, tool_call_id=TEXT))
CHAT_TOOL = a({"function": a({"name": NAME}, description=TEXT, strict=FLAG, parameters=OBJECT)}, type=word("function"))
CHAT_CHOICE = any_of(word("none", "auto", "required", "any"), a({"type": word("none", "auto", "function", "allowed_tools")}))

TOKEN = integer(0, VOCABULARY - 1)
PIECE = a({"id": TOKEN, "piece": any_of(TEXT, array(integer(0, 255)))})
COUNT = integer(0, MOST_INT)
JOB = a({"seconds": {"type": "number"}} | {name: COUNT for name in ("id", "prompt_tokens", "answer_tokens", "drafted", "accepted")})
LOAD = a({"model": TEXT, "running": COUNT, "waiting": COUNT, "kv_cache_usage": number(0, 1), "preemptions": COUNT, "steps": COUNT,
          "answer_tokens": COUNT, "answers": array(JOB),
          "last_step": a({name: COUNT for name in ("prompt_rows", "text_rows", "draft_rows", "most_rows")})})


def said(schema: dict) -> dict:
    return {"description": "", "content": {JSON: {"schema": schema}}}


def post(name: str, body: dict, answer: dict, error: str = "Error") -> dict:
    return {"post": {"operationId": name, "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
                     "responses": {"200": said(answer), "default": said(ref(error))}}}


def describe() -> dict:
    message = post("messages", a({"messages": MESSAGES, "max_tokens": integer(1, MOST_INT)}, **OF_MESSAGES, **SAMPLING),
                   a(ANSWER | {"stop_reason": ENDS, "stop_sequence": or_null(TEXT)}), "MessageError")
    event = {"type": "string", "contentMediaType": JSON, "contentSchema": EVENT}
    message["post"]["responses"]["200"]["content"]["text/event-stream"] = {
        "itemSchema": {"type": "object", "required": ["data"], "properties": {"data": event}}}
    paths = {
        "/v1/messages": message,
        "/v1/messages/count_tokens": post("count_tokens", a({"messages": MESSAGES}, **OF_MESSAGES), a({"input_tokens": COUNT}),
                                          "MessageError"),
        "/tokenize": post("tokenize", a({"content": TEXT}, add_special=FLAG, add_special_tokens=FLAG, parse_special=FLAG, with_pieces=FLAG),
                          a({"count": COUNT, "max_model_len": word(CONTEXT), "tokens": any_of(array(TOKEN), array(PIECE))})),
        "/detokenize": post("detokenize", a({"tokens": array(TOKEN, maxItems=CONTEXT)}), a({"content": TEXT, "prompt": TEXT})),
        "/apply-template": post("apply_template", a({"messages": array(ref("ChatMessage"), minItems=1, maxItems=1024)},
                                                    add_generation_prompt=FLAG, continue_final_message=FLAG, reasoning_effort=EFFORT,
                                                    chat_template_kwargs=OBJECT, parallel_tool_calls=FLAG,
                                                    tools=array(CHAT_TOOL, maxItems=256), tool_choice=CHAT_CHOICE), a({"prompt": TEXT})),
        "/v1/load": {"get": {"operationId": "load", "responses": {"200": said(a({"server_load": COUNT, "models": array(LOAD)}))}}}}
    for path in paths.values():
        if "post" in path:
            path["post"]["requestBody"]["content"][JSON]["schema"]["properties"] |= MODEL_FIELD
    errors = {"Error": a({"error": a({"message": TEXT, "type": TEXT, "param": or_null(TEXT), "code": or_null(TEXT)})}),
              "MessageError": a({"type": word("error"), "error": a({"type": TEXT, "message": TEXT})})}
    return {"openapi": "3.1.0", "info": {"title": "What Talon serves beside OpenAI's paths", "version": "1"}, "paths": paths,
            "components": {"schemas": errors | {"Turn": TURN, "ChatMessage": CHAT_MESSAGE}}}


if __name__ == "__main__":
    print(json.dumps(describe(), indent=1))
