"""Real clients against a server: what they make of its answers, streams and errors.

usage: clients.py     (by run.py, which says where the server is, in an environment with requirements.txt; see scripts/clients.sh)
"""
import asyncio
import json
import os
import subprocess
import unittest

import anthropic
import openai
import pydantic

MESSAGES = [{"role": "user", "content": "Name three animals."}]
ADDRESS, TALON, MODEL = (os.environ[name] for name in ("TALON_ADDRESS", "TALON", "MODEL"))
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"],
              "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather of a city.",
                                         "parameters": PARAMETERS}}


class Animal(pydantic.BaseModel):
    kind: str = pydantic.Field(max_length=20)
    legs: int
    wild: bool


class OpenAi(unittest.TestCase):
    def setUp(self) -> None:
        self.client = openai.OpenAI(base_url=ADDRESS + "/v1", api_key="key", max_retries=0)

    def chat(self, **more):
        return self.client.chat.completions.create(model="model", messages=MESSAGES, max_tokens=24, temperature=0, **more)

    def test_a_stream_joins_to_the_whole(self) -> None:
        whole = self.chat()
        pieces = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(choice.delta.content or "" for piece in pieces for choice in piece.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(pieces[-2].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_the_text_is_that_of_the_command_line(self) -> None:
        run = subprocess.run([TALON, "run", "-m", MODEL, "--chat", "-p", MESSAGES[0]["content"], "-n", "24", "-d", "none"],
                             capture_output=True, text=True, check=True)
        self.assertEqual(self.chat().choices[0].message.content, run.stdout.rstrip("\n"))

    def test_drafters_change_nothing(self) -> None:
        texts = {self.chat(extra_body={"talon": {"drafter": drafter}}).choices[0].message.content
                 for drafter in ("none", "suffix", "ngram", "auto")}
        self.assertEqual(len(texts), 1)

    def test_logprobs_and_choices(self) -> None:
        answer = self.chat(logprobs=True, top_logprobs=2, n=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        content = answer.choices[0].logprobs.content
        text = "".join(token.token for token in content)  # with the end token, if it ended there
        self.assertTrue(text.startswith(answer.choices[0].message.content))
        self.assertEqual(len(content[0].top_logprobs), 2)

    def test_completions_and_models(self) -> None:
        answer = self.client.completions.create(model="model", prompt="Once upon", max_tokens=8, logprobs=1)
        self.assertEqual(answer.usage.completion_tokens, 8)
        self.assertEqual(self.client.models.list().data[0].id, "model")

    def test_requests_at_once_have_the_texts_of_those_one_by_one(self) -> None:
        asked = [dict(model="model", messages=[{"role": "user", "content": f"Tell of {topic}."}], max_tokens=24, temperature=0.7, seed=seed)
                 for seed, topic in enumerate(("rain", "bees", "bread", "trains", "salt", "snow", "chess", "wool"))]

        async def ask_at_once() -> list[str]:
            async with openai.AsyncOpenAI(base_url=ADDRESS + "/v1", api_key="key", max_retries=0) as client:
                answers = await asyncio.gather(*(client.chat.completions.create(**one) for one in asked))
            return [answer.choices[0].message.content for answer in answers]

        alone = [self.client.chat.completions.create(**one).choices[0].message.content for one in asked]
        self.assertEqual(asyncio.run(ask_at_once()), alone)

    def test_responses(self) -> None:
        def ask(**more):
            return self.client.responses.create(model="model", input=MESSAGES, max_output_tokens=24, temperature=0, **more)
        whole = ask()
        self.assertEqual(whole.output_text, self.chat().choices[0].message.content)
        events = list(ask(stream=True))
        self.assertEqual("".join(event.delta for event in events if event.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)

    def test_tools(self) -> None:
        more = dict(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, extra_body={"max_tokens": 64})
        whole = self.chat(**more).choices[0]
        self.assertEqual(whole.finish_reason, "tool_calls")
        call = whole.message.tool_calls[0]
        self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))
        name, arguments = "", ""
        for piece in self.chat(stream=True, **more):
            for part in piece.choices[0].delta.tool_calls or []:
                name += part.function.name or ""
                arguments += part.function.arguments or ""
        self.assertEqual((name, arguments), (call.function.name, call.function.arguments))
        turns = MESSAGES + [whole.message, {"role": "tool", "tool_call_id": call.id, "content": "warm"}]
        answer = self.client.chat.completions.create(model="model", messages=turns, tools=[TOOL], max_tokens=8)
        self.assertTrue(answer.choices[0].message.content)
        with self.client.chat.completions.stream(model="model", messages=MESSAGES, max_tokens=64, tools=[TOOL],
                                                 tool_choice="required", parallel_tool_calls=False) as stream:
            self.assertTrue(stream.get_final_completion().choices[0].message.tool_calls)

    def test_schemas(self) -> None:
        answer = self.client.chat.completions.parse(model="model", messages=MESSAGES, max_tokens=100, temperature=0,
                                                    response_format=Animal)
        self.assertIsInstance(answer.choices[0].message.parsed, Animal)
        texts = {self.chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": PARAMETERS}},
                           logprobs=True, extra_body={"talon": {"drafter": drafter}}).choices[0].message.content
                 for drafter in ("none", "suffix", "auto")}
        self.assertEqual(len(texts), 1)
        with self.assertRaises(openai.BadRequestError) as error:
            self.chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "x"}}})
        self.assertEqual(error.exception.param, "response_format.json_schema.schema")

    def test_responses_with_tools_and_schemas(self) -> None:
        tool = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}
        answer = self.client.responses.create(model="model", input=MESSAGES, max_output_tokens=64, tools=[tool],
                                              tool_choice="required", parallel_tool_calls=False)
        call = answer.output[0]
        self.assertEqual((call.type, call.name), ("function_call", "weather"))
        turns = MESSAGES + [call, {"type": "function_call_output", "call_id": call.call_id, "output": "warm"}]
        again = self.client.responses.create(model="model", input=turns, max_output_tokens=16, tools=[tool], tool_choice="none")
        self.assertTrue(again.output_text)
        with self.client.responses.stream(model="model", input=MESSAGES, max_output_tokens=64, tools=[tool],
                                          tool_choice="required", parallel_tool_calls=False) as stream:
            self.assertEqual(stream.get_final_response().output[0].name, "weather")
        parsed = self.client.responses.parse(model="model", input=MESSAGES, max_output_tokens=100, temperature=0, text_format=Animal)
        self.assertIsInstance(parsed.output_parsed, Animal)

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(openai.BadRequestError) as error:
            self.chat(top_p=7)
        self.assertEqual(error.exception.param, "top_p")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=MESSAGES)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=ADDRESS + "/v1", api_key="wrong").models.list()


class Anthropic(unittest.TestCase):
    def setUp(self) -> None:
        self.client = anthropic.Anthropic(base_url=ADDRESS, api_key="key", max_retries=0)

    def ask(self, **more):
        return dict(model="model", messages=MESSAGES, max_tokens=8, extra_body={"temperature": 0} | more)

    def test_a_stream_joins_to_the_whole(self) -> None:
        whole = self.client.messages.create(**self.ask())
        with self.client.messages.stream(**self.ask()) as stream:
            self.assertEqual("".join(stream.text_stream), whole.content[0].text)
            self.assertEqual(stream.get_final_message().usage.output_tokens, whole.usage.output_tokens)
        self.assertEqual(whole.stop_reason, "max_tokens")

    def test_tools(self) -> None:
        tool = {"name": "weather", "description": "Tells the weather.", "input_schema": PARAMETERS}
        more = dict(tools=[tool], tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=64)
        answer = self.client.messages.create(**self.ask() | more)
        self.assertEqual(answer.stop_reason, "tool_use")
        use = answer.content[0]
        self.assertIn(use.input["city"], ("Rome", "Oslo"))
        with self.client.messages.stream(**self.ask() | more) as stream:
            self.assertEqual(stream.get_final_message().content[0].input, use.input)
        turns = MESSAGES + [{"role": "assistant", "content": answer.content},
                            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "warm"}]}]
        said = self.client.messages.create(model="model", messages=turns, tools=[tool], max_tokens=8)
        self.assertEqual(said.content[0].type, "text")

    def test_schemas(self) -> None:
        output = {"format": {"type": "json_schema", "schema": PARAMETERS}}
        answer = self.client.messages.create(**self.ask() | {"max_tokens": 64, "extra_body": {"output_config": output}})
        self.assertIn(json.loads(answer.content[0].text)["city"], ("Rome", "Oslo"))

    def test_tokens_are_counted(self) -> None:
        counted = self.client.messages.count_tokens(model="model", messages=MESSAGES)
        self.assertGreater(counted.input_tokens, 5)

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.create(**self.ask(top_p=7))
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**self.ask() | {"model": "other"})
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=ADDRESS, api_key="wrong", max_retries=0).messages.create(**self.ask())


if __name__ == "__main__":
    unittest.main()
