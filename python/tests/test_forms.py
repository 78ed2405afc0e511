import json
import re
import subprocess

import pytest

import talon
from conftest import SMALL

PROMPT = "Once upon a time"
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["Tom", "Lily"]}, "age": {"enum": [3, 5, 7]}}, "required": ["name", "age"],
          "additionalProperties": False}
LARK = 'start: "a " ("dog" | "cat")'
GBNF = 'root ::= ("Tom" | "Lily") " has a " [a-z]{3,6}'


def run(program: str, *arguments: str) -> dict:
    done = subprocess.run([program, "run", "-m", SMALL, "--json", "-d", "none", "-p", PROMPT, "-n", "60", "--seed", "7", *arguments],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("flag, form", [("--json-schema", {"json_schema": SCHEMA}), ("--json-schema", {"json_schema": json.dumps(SCHEMA)}),
                                        ("--regex", {"regex": "She was (very|not) [a-z ]{5,20}"}), ("--grammar", {"grammar": LARK}),
                                        ("--grammar", {"grammar": GBNF})])
def test_answers_in_a_form_are_those_of_the_command_line(small, program, tmp_path, flag, form, temperature):
    text, = form.values()
    if flag == "--regex":
        expected = run(program, flag, text, "--temperature", str(temperature))
    else:
        file = tmp_path / "form"
        file.write_text(text if isinstance(text, str) else json.dumps(text))
        expected = run(program, flag, str(file), "--temperature", str(temperature))
    for drafter in ("none", "suffix@policy=fixed"):
        answer = small.generate(PROMPT, max_new=60, temperature=temperature, seed=7, drafter=drafter, **form)
        assert answer.tokens.tolist() == expected["tokens"]
        assert answer.text == expected["text"]
        assert answer.finish == expected["finish"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_keep_to_their_form(small, temperature):
    def ask(**form):
        return small.generate(PROMPT, max_new=80, temperature=temperature, seed=3, **form).text

    value = json.loads(ask(json_schema=SCHEMA))
    assert list(value) == ["name", "age"] and value["name"] in ("Tom", "Lily") and value["age"] in (3, 5, 7)
    assert re.fullmatch("[ab]{3}c", ask(regex="[ab]{3}c"))
    assert ask(grammar=LARK) in ("a dog", "a cat")
    assert ask(choices=["yes", 'a "no"']) in ("yes", 'a "no"')
    assert ask(choices=("\u00fcber",)) == "\u00fcber"


def test_a_batch_keeps_to_one_form(small):
    prompts = ["Once upon a time", "Lily and Tom", "The cat"]
    answers = small.generate_batch(prompts, choices=["a dog", "a cat"], temperature=0.9, seeds=[1, 2, 3], max_new=20)
    assert {answer.text for answer in answers} <= {"a dog", "a cat"}
    alone = small.generate(prompts[1], choices=["a dog", "a cat"], temperature=0.9, seed=2, max_new=20, drafter="none")
    assert answers[1].tokens.tolist() == alone.tokens.tolist()


def test_forced_tokens_cost_no_checks_of_their_own(small):
    text = "Once upon a time, there was a little girl named Lily."
    plain = small.generate("Tom", max_new=60, choices=[text], drafter="none")
    drafted = small.generate("Tom", max_new=60, choices=[text], drafter="suffix@policy=fixed")
    assert plain.text == drafted.text == text
    assert drafted.statistics["rounds"] * 2 < plain.statistics["rounds"]


def test_a_chat_keeps_to_a_form(chatty):
    talk = talon.Chat(chatty, max_new=60)
    assert talk.say("Does it rain?", choices=["yes", "no"]).text in ("yes", "no")
    assert json.loads(talk.say("Who are you?", json_schema=SCHEMA).text)["age"] in (3, 5, 7)


def test_the_form_of_one_answer_takes_the_place_of_the_chats():
    usual = {"regex": "[a-z]+", "max_new": 9}
    assert talon.forms.merged(usual, {"choices": ["a"]}) == {"choices": ["a"], "max_new": 9}
    assert talon.forms.merged(usual, {"regex": None, "seed": 2}) == {"regex": None, "max_new": 9, "seed": 2}
    assert talon.forms.merged(usual, {"choices": None})["regex"] == "[a-z]+"
    assert usual == {"regex": "[a-z]+", "max_new": 9}


@pytest.mark.parametrize("form, words", [
    ({"json_schema": 3}, "^json_schema: expected a dictionary, True, or a schema as text, found int"),
    ({"json_schema": False}, "^json_schema: .*found bool"), ({"json_schema": "{"}, "^json_schema: grammar: expected JSON"),
    ({"json_schema": {"x": {1}}}, "^json_schema: expected values that JSON can hold"),
    ({"json_schema": {"type": "array", "uniqueItems": True}}, "(?s)^json_schema: grammar: .*uniqueItems"),
    ({"regex": "(a"}, "^regex: grammar: "), ({"regex": 3}, "^regex: expected a text, found int"),
    ({"regex": "a\0"}, "^regex: .*zero bytes"), ({"grammar": "start: nosuch"}, "^grammar: grammar: "),
    ({"grammar": b"start"}, "^grammar: expected a text, found bytes"), ({"choices": "yes"}, "^choices: expected a list of texts, found str"),
    ({"choices": []}, "^choices: grammar: expected a list of texts that are not empty"),
    ({"choices": ["a", 3]}, r"^choices\[1\]: expected a text, found int"), ({"choices": ["a\ud800"]}, r"^choices\[0\]: .*UTF-8"),
    ({"regex": "a", "choices": ["b"]}, "^choices: expected one form of the answer, found regex as well")])
def test_what_is_no_form_is_named(small, form, words):
    with pytest.raises(talon.ArgumentError, match=words):
        small.generate("a", max_new=4, **form)
    with pytest.raises(talon.ArgumentError, match=words):
        small.generate_batch(["a", "b"], max_new=4, **form)
    assert not small._engine._streams
