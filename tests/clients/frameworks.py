"""Libraries that stand on OpenAI's interface, against a server: chat, streams, tools and schemas.

usage: frameworks.py ADDRESS     (of a server with the key `key` and a model named `model`)
"""
import json
import sys
import unittest

import instructor
import litellm
import openai
import pydantic
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

ADDRESS = sys.argv[1] + "/v1"
MESSAGES = [{"role": "user", "content": "Name an animal."}]


class Animal(pydantic.BaseModel):
    """An animal."""
    kind: str = pydantic.Field(max_length=20)
    legs: int = pydantic.Field(ge=0, le=8)


def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"It is warm in {city}."


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
        call = self.ask(tools=[tool], tool_choice="required").choices[0].message.tool_calls[0]
        self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(litellm.BadRequestError):
            self.ask(top_p=7)


class Langchain(unittest.TestCase):
    def setUp(self) -> None:
        self.model = ChatOpenAI(model="model", base_url=ADDRESS, api_key="key", temperature=0, max_tokens=64, max_retries=0)

    def test_a_stream_joins_to_the_whole(self) -> None:
        self.assertEqual("".join(piece.content for piece in self.model.stream("Hi")), self.model.invoke("Hi").content)

    def test_tools(self) -> None:
        call = self.model.bind_tools([weather], tool_choice="weather").invoke("Is it warm?").tool_calls[0]
        self.assertEqual(call["name"], "weather")
        self.assertIsInstance(call["args"]["city"], str)

    def test_schemas(self) -> None:
        for method in ("json_schema", "function_calling"):
            self.assertIsInstance(self.model.with_structured_output(Animal, method=method).invoke("A cat."), Animal)


class Instructor(unittest.TestCase):
    def test_schemas(self) -> None:
        client = openai.OpenAI(base_url=ADDRESS, api_key="key", max_retries=0)
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
            answer = instructor.from_openai(client, mode=mode).chat.completions.create(
                model="model", messages=MESSAGES, response_model=Animal, max_tokens=100, temperature=0, max_retries=0)
            self.assertIsInstance(answer, Animal)


class PydanticAi(unittest.TestCase):
    def setUp(self) -> None:
        self.model = OpenAIChatModel("model", provider=OpenAIProvider(base_url=ADDRESS, api_key="key"))

    def test_schemas(self) -> None:
        for output in (Animal, NativeOutput(Animal)):
            agent = Agent(self.model, output_type=output, model_settings={"temperature": 0, "max_tokens": 100})
            self.assertIsInstance(agent.run_sync("Name an animal.").output, Animal)

    def test_a_stream_joins_to_the_whole(self) -> None:
        agent = Agent(self.model, model_settings={"temperature": 0, "max_tokens": 24})
        whole = agent.run_sync("Hi").output
        with agent.run_stream_sync("Hi") as stream:
            self.assertEqual("".join(stream.stream_text(delta=True)), whole)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
