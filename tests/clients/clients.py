"""Real clients against a server: what they make of its answers, streams and errors.

usage: clients.py TALON MODEL     (in an environment with requirements.txt; see scripts/clients.sh)
"""
import re
import subprocess
import sys
import unittest

import anthropic
import openai

MESSAGES = [{"role": "user", "content": "Name three animals."}]
TALON, MODEL = sys.argv[1:3]


def start() -> tuple[subprocess.Popen, str]:
    server = subprocess.Popen([TALON, "serve", "-m", f"model={MODEL}", "--port", "0", "--api-key", "key"], stderr=subprocess.PIPE,
                              text=True)
    for line in server.stderr:
        if found := re.search(r"listening on (\S+)", line):
            return server, found.group(1)
    raise SystemExit("clients: the server did not start")


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

    def test_responses(self) -> None:
        def ask(**more):
            return self.client.responses.create(model="model", input=MESSAGES, max_output_tokens=24, temperature=0, **more)
        whole = ask()
        self.assertEqual(whole.output_text, self.chat().choices[0].message.content)
        events = list(ask(stream=True))
        self.assertEqual("".join(event.delta for event in events if event.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)

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

    def test_tokens_are_counted(self) -> None:
        counted = self.client.messages.count_tokens(model="model", messages=MESSAGES)
        self.assertGreater(counted.input_tokens, 5)

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.create(**self.ask(top_p=7))
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**self.ask() | {"model": "other"})


if __name__ == "__main__":
    process, ADDRESS = start()
    try:
        result = unittest.main(argv=sys.argv[:1], exit=False).result
    finally:
        process.terminate()
        process.wait(60)
    sys.exit(not result.wasSuccessful() or process.returncode)
