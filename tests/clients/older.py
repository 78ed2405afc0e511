"""Libraries that want an older client of OpenAI than clients.py has: chat, streams, tools, schemas and errors.

usage: older.py     (by run.py, which says where the server is; see scripts/clients.sh)
"""
import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the net for prices
import instructor
import litellm
import openai
import pydantic

ADDRESS = os.environ["TALON_ADDRESS"] + "/v1"
MESSAGES = [{"role": "user", "content": "Name an animal."}]


class Animal(pydantic.BaseModel):
    """An animal."""
    kind: str = pydantic.Field(max_length=20)
    legs: int = pydantic.Field(ge=0, le=8)


class Litellm(unittest.TestCase):
    def ask(self, **more):
        return litellm.completion(model="openai/model", api_base=ADDRESS, api_key="key", messages=MESSAGES, max_tokens=64,
                                  temperature=0, **more)

    def test_a_stream_joins_to_the_whole(self) -> None:
        text = "".join(piece.choices[0].delta.content or "" for piece in self.ask(stream=True))
        self.assertEqual(text, self.ask().choices[0].message.content)

    def test_tools(self) -> None:
        parameters = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
                      "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
        more = dict(tools=[tool], tool_choice="required", parallel_tool_calls=False)
        call = self.ask(**more).choices[0].message.tool_calls[0]
        self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))
        name, arguments = "", ""
        for piece in self.ask(stream=True, **more):
            for part in piece.choices[0].delta.tool_calls or []:
                name += part.function.name or ""
                arguments += part.function.arguments or ""
        self.assertEqual((name, arguments), (call.function.name, call.function.arguments))

    def test_schemas(self) -> None:
        self.assertIsInstance(Animal.model_validate_json(self.ask(response_format=Animal).choices[0].message.content), Animal)

    def test_logprobs_and_choices(self) -> None:
        answer = self.ask(logprobs=True, top_logprobs=2, n=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual(len(answer.choices[1].logprobs.content[0].top_logprobs), 2)

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(litellm.BadRequestError):
            self.ask(top_p=7)


class Instructor(unittest.TestCase):
    MODES = (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA)
    ASK = dict(model="model", messages=MESSAGES, response_model=Animal, max_tokens=100, temperature=0, max_retries=0)

    def client(self, mode: instructor.Mode):
        return instructor.from_openai(openai.OpenAI(base_url=ADDRESS, api_key="key", max_retries=0), mode=mode).chat.completions

    def test_schemas_in_a_stream_too(self) -> None:
        for mode in self.MODES:
            answer = self.client(mode).create(**self.ASK)
            self.assertIsInstance(answer, Animal)
            *_, last = self.client(mode).create_partial(**self.ASK)
            self.assertIsInstance(Animal(**last.model_dump()), Animal)

    def test_logprobs_and_choices_come_with_the_answer(self) -> None:
        answer, completion = self.client(instructor.Mode.JSON_SCHEMA).create_with_completion(**self.ASK, logprobs=True, top_logprobs=2, n=2)
        self.assertEqual([choice.index for choice in completion.choices], [0, 1])
        tokens = completion.choices[0].logprobs.content
        self.assertEqual(len(tokens[0].top_logprobs), 2)
        text = completion.choices[0].message.content
        self.assertTrue("".join(token.token for token in tokens).startswith(text))
        self.assertEqual(json.loads(text), answer.model_dump())

    def test_errors_come_out(self) -> None:
        with self.assertRaisesRegex(Exception, "top_p"):
            self.client(self.MODES[0]).create(**self.ASK, top_p=7)


if __name__ == "__main__":
    unittest.main()
