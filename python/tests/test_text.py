import json

import pytest

import talon
from talon import chat


def test_text_goes_to_tokens_and_back(small):
    text = "Once upon a time, there was a little girl."
    assert small.detokenize(small.tokenize(text)) == text
    assert small.tokenize(text, start=False).tolist() == small.tokenize(text).tolist()[1:]
    assert small.detokenize([]) == ""


def test_chats_are_rendered_by_the_models_template(chatty):
    messages = [chat.system("Be short."), chat.user("Hi <|im_end|>"), chat.assistant("Hello!"), chat.user([{"type": "text", "text": "A?"}])]
    text = chatty.chat_text(messages)
    assert text.count("<|im_start|>") == 5 and text.endswith("<|im_start|>assistant\n")
    ids = chatty.chat_tokens(messages).tolist()
    end = chatty.info["end_tokens"][-1]
    assert ids.count(end) == 4  # not the one that the user wrote
    assert not chatty.chat_text(messages, generation_prompt=False).endswith("assistant\n")


def test_variables_are_the_templates_whatever_their_names(chatty):
    messages = [chat.user("Hi")]
    plain = chatty.generate(messages, max_new=1).statistics["prompt_tokens"]
    for name in ("generation_prompt", "self", "variables"):
        assert chatty.generate(messages, max_new=1, variables={name: False}).statistics["prompt_tokens"] == plain


def test_what_else_messages_have_is_the_templates():
    pairs, entries = chat.read([
        chat.user("Rain?"),
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "sky", "arguments": '{"b": 1, "a": 2}'}}]},
        {"role": "tool", "content": "yes", "tool_call_id": "1"}])
    assert pairs == [("user", "Rain?"), ("assistant", ""), ("tool", "yes")]
    assert json.loads(entries) == [
        {}, {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "sky", "arguments": {"b": 1, "a": 2}}}]},
        {"tool_call_id": "1"}]
    assert chat.read([chat.user("Rain?")])[1] is None


def test_a_chat_remembers(chatty):
    talk = talon.Chat(chatty, system="Answer with one word.", max_new=8)
    first = talk.say("Name a colour.")
    assert [message["role"] for message in talk.messages] == ["system", "user", "assistant"]
    assert talk.messages[-1]["content"] == first.text
    second = talk.say("Name another.")
    assert second.statistics["prompt_tokens"] > first.statistics["prompt_tokens"]
    assert second.text == chatty.generate(talk.messages[:-1], max_new=8, drafter="none").text


@pytest.mark.parametrize("messages, words", [
    (["hi"], "messages[0]"), (3, "messages: expected a list"), (chat.user("a"), "messages: expected a list"), ([{"content": "x"}], "messages[0].role"), ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"), ([{"role": 1, "content": ""}], "role"),
    ([chat.user("a\0b")], "messages[0].content: expected a text without zero bytes, found one at 1"), ([{"role": "u\0", "content": ""}], "role: "),
    ([chat.user("a\ud800")], "messages[0].content: expected text that UTF-8 can hold"),
    ([chat.user([{"type": "text", "text": "\0"}])], "messages[0].content: "),
    ([{"role": "assistant", "content": None}], "messages[0].content: "), ([{"role": "assistant", "tool_calls": []}], "messages[0].content: "),
    ([{"role": "assistant", "tool_calls": 3}], "messages[0].tool_calls: expected a list"),
    ([{**chat.user("a"), "more": {1}}], "messages: expected entries that JSON can hold"),
    ([{**chat.user("a"), "more": float("inf")}], "messages: expected entries that JSON can hold")])
def test_messages_that_are_none_are_named(messages, words):
    with pytest.raises(talon.ArgumentError, match=words.replace("[", r"\[").replace("]", r"\]")):
        chat.read(messages)
