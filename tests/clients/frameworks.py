"""Libraries that stand on OpenAI's interface, against a server: chat, streams, tools and schemas.

usage: frameworks.py     (by run.py, which says where the server is; see scripts/clients.sh)
"""
import os
import unittest
from typing import Literal

import openai
import pydantic
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

ADDRESS = os.environ["TALON_ADDRESS"] + "/v1"


class Animal(pydantic.BaseModel):
    """An animal."""
    kind: str = pydantic.Field(max_length=20)
    legs: int = pydantic.Field(ge=0, le=8)


def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"It is warm in {city}."


class Langchain(unittest.TestCase):
    def setUp(self) -> None:
        self.model = ChatOpenAI(model="model", base_url=ADDRESS, api_key="key", temperature=0, max_tokens=64, max_retries=0)

    def test_a_stream_joins_to_the_whole(self) -> None:
        self.assertEqual("".join(piece.content for piece in self.model.stream("Hi")), self.model.invoke("Hi").content)

    def test_tools(self) -> None:
        call = self.model.bind_tools([weather], tool_choice="weather").invoke("Is it warm?").tool_calls[0]
        self.assertEqual(call["name"], "weather")
        self.assertIsInstance(call["args"]["city"], str)

    def test_streamed_tools_join_to_the_whole(self) -> None:
        model = self.model.bind_tools([weather], tool_choice="weather")
        first, *rest = model.stream("Is it warm?")
        call, whole = sum(rest, first).tool_calls[0], model.invoke("Is it warm?").tool_calls[0]
        self.assertEqual((call["name"], call["args"]), (whole["name"], whole["args"]))

    def test_schemas(self) -> None:
        for method in ("json_schema", "function_calling"):
            self.assertIsInstance(self.model.with_structured_output(Animal, method=method).invoke("A cat."), Animal)

    def test_logprobs_and_choices(self) -> None:
        answer = self.model.bind(logprobs=True, top_logprobs=2).invoke("Hi")
        tokens = answer.response_metadata["logprobs"]["content"]
        self.assertTrue("".join(token["token"] for token in tokens).startswith(answer.content))
        self.assertEqual(len(tokens[0]["top_logprobs"]), 2)
        both = self.model.model_copy(update={"n": 2, "temperature": 1.0}).generate([[HumanMessage("Hi")]]).generations[0]
        self.assertEqual(len({one.text for one in both}), 2)

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(openai.BadRequestError) as error:
            self.model.bind(top_p=7).invoke("Hi")
        self.assertEqual(error.exception.param, "top_p")


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

    def test_logprobs(self) -> None:
        settings = {"temperature": 0, "max_tokens": 24, "openai_logprobs": True, "openai_top_logprobs": 2}
        result = Agent(self.model, model_settings=settings).run_sync("Hi")
        tokens = result.response.provider_details["logprobs"]
        self.assertTrue("".join(token["token"] for token in tokens).startswith(result.output))
        self.assertEqual(len(tokens[0]["top_logprobs"]), 2)

    def test_tools_are_called_and_answers_go_on(self) -> None:
        asked = []

        def weather(city: Literal["Rome", "Oslo"]) -> str:
            """Tells the weather of a city."""
            asked.append(city)
            return "warm"

        agent = Agent(self.model, tools=[weather], output_type=Animal, model_settings={"temperature": 0, "max_tokens": 100})
        with agent.run_stream_sync("Name an animal.") as stream:
            self.assertIsInstance(stream.get_output(), Animal)
        self.assertLessEqual(set(asked), {"Rome", "Oslo"})

    def test_errors_have_their_class(self) -> None:
        with self.assertRaises(ModelHTTPError) as error:
            Agent(self.model, model_settings={"top_p": 7}).run_sync("Hi")
        self.assertEqual(error.exception.status_code, 400)


if __name__ == "__main__":
    unittest.main()
