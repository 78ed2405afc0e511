import collections
import json
import subprocess
import sys
import threading
import time
import types
import typing
import weakref

import numpy as np
import pytest

import talon
import talon.engine
from conftest import SMALL

PROMPT = "Once upon a time"


def run(program: str, *arguments: str) -> dict:
    done = subprocess.run([program, "run", "-m", SMALL, "--json", "-d", "none", *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("drafter", ["none", "suffix", "ngram@policy=fixed", None])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_answers_are_those_of_the_command_line(small, program, drafter, temperature):
    expected = run(program, "-p", PROMPT, "-n", "60", "--temperature", str(temperature), "--seed", "7")
    answer = small.generate(PROMPT, max_new=60, temperature=temperature, seed=7, drafter=drafter)
    assert answer.tokens.tolist() == expected["tokens"]
    assert answer.text == expected["text"]
    assert answer.finish == expected["finish"]


def test_a_stream_yields_the_answer_token_by_token(small):
    whole = small.generate(PROMPT, max_new=60, drafter="suffix@policy=fixed")
    with small.generate(PROMPT, max_new=60, drafter="suffix@policy=fixed", stream=True) as stream:
        tokens = list(stream)
    assert [token.id for token in tokens] == whole.tokens.tolist()
    assert "".join(token.text for token in tokens) == whole.text == stream.answer.text
    assert [token.accepted for token in tokens] == whole.accepted.tolist()
    assert 0 < sum(whole.accepted) == whole.statistics["accepted_tokens"]
    assert stream.statistics["rounds"] == whole.statistics["rounds"] < 59
    assert all(token.text.encode() == small._visible_bytes(token.id) for token in tokens if token.id >= 259)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_expected_answer_saves_checks_and_changes_nothing(small, temperature):
    def ask(expected=None):
        return small.generate(PROMPT, max_new=80, temperature=temperature, drafter="suffix@policy=fixed", expected=expected)

    plain = ask()
    for expected in (plain.text, plain.tokens, plain.tokens.tolist()):
        helped = ask(expected)
        assert helped.tokens.tolist() == plain.tokens.tolist()
        assert helped.statistics["rounds"] * 3 < plain.statistics["rounds"]
    for other in ("Another text.", "", []):
        assert ask(other).tokens.tolist() == plain.tokens.tolist()


def test_prompts_may_be_texts_or_ids(small):
    text = small.generate(PROMPT, max_new=10)
    ids = small.tokenize(PROMPT)
    assert ids.dtype == np.int32
    for same in (ids, ids.tolist(), ids.astype(np.int64), ids.astype(np.uint16), tuple(ids.tolist()), list(ids)):
        assert small.generate(same, max_new=10).tokens.tolist() == text.tokens.tolist()


def test_a_batch_has_the_answers_of_its_prompts_in_their_order(small):
    prompts = ["Once upon a time", "Lily and Tom", "The cat", "A big dog", small.tokenize("One day")] * 4
    seeds = list(range(len(prompts)))
    batch = small.generate_batch(prompts, seeds=seeds, temperature=0.9, max_new=30, drafter="suffix")
    for prompt, seed, answer in zip(prompts, seeds, batch):
        np.testing.assert_array_equal(answer.tokens, small.generate(prompt, seed=seed, temperature=0.9, max_new=30, drafter="none").tokens)
    assert small.generate_batch([]) == []


def test_a_batch_shows_how_far_it_is(small, capsys):
    small.generate_batch(["a", "b"], max_new=4, progress=True)
    assert "2/2 answers, 8 tokens" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, True])
def test_a_batch_needs_no_standard_error(small, monkeypatch, capsys, progress):
    monkeypatch.setattr(sys, "stderr", None)
    assert len(small.generate_batch(["a", "b"], max_new=1, progress=progress)) == 2
    assert capsys.readouterr().out == ""


def test_a_batch_looks_at_its_streams_a_few_times_each(small, monkeypatch):
    looks = []

    class Counting(weakref.ref):
        def __call__(self):
            looks.append(None)
            return super().__call__()

    monkeypatch.setattr(talon.engine, "weakref", types.SimpleNamespace(ref=Counting))
    small.generate_batch(["a"] * 60, max_new=2, drafter="none")
    assert len(looks) <= 60 * 4


def test_a_bar_counts_now_and_then(small, monkeypatch):
    looks = []
    statistics = talon.Stream.statistics.fget
    monkeypatch.setattr(talon.Stream, "statistics", property(lambda stream: (looks.append(None), statistics(stream))[1]))
    begun = time.monotonic()
    small.generate_batch(["a"] * 20, max_new=50, ignore_end=True, progress=True)
    assert len(looks) <= 20 * (2 + 10 * (time.monotonic() - begun))


def test_rounds_are_kept_for_those_that_want_them(small):
    first = small.generate(PROMPT, max_new=20, rounds=True, stream=True, drafter="none")
    small.generate(PROMPT, max_new=4, drafter="none")
    assert len(first.result().rounds) == 19
    assert not small._engine._keeping


def test_stop_texts_logprobs_and_bias(small):
    plain = small.generate(PROMPT, max_new=40)
    word = plain.text.split()[5]
    assert word not in small.generate(PROMPT, max_new=40, stop=word).text
    assert small.generate(PROMPT, max_new=40, stop=[word]).finish == "stop_text"
    answer = small.generate(PROMPT, max_new=8, logprobs=2, stream=True)
    for token in answer:
        assert token.top_logprobs[0] == (token.id, pytest.approx(token.logprob))
        assert len(token.top_logprobs) == 2
    logprobs = small.generate(PROMPT, max_new=8, logprobs=0, drafter="suffix@policy=fixed").logprobs
    np.testing.assert_array_equal(answer.answer.logprobs, logprobs)
    assert logprobs.shape == (8,) and logprobs.dtype == np.float64 and plain.logprobs is None
    rows = small.logits([*small.tokenize(PROMPT), *plain.tokens[:7]], first=len(small.tokenize(PROMPT)) - 1).astype(np.float64)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(logprobs, rows[np.arange(8), plain.tokens[:8]], atol=1e-5)
    wanted = 400
    assert set(small.generate(PROMPT, max_new=5, logit_bias={wanted: 1000.0}).tokens) == {wanted}
    assert plain.tokens[0] not in small.generate(PROMPT, max_new=5, banned=[plain.tokens[0]]).tokens


def test_logits_are_the_models_own(small):
    ids = small.tokenize(PROMPT)
    logits = small.logits(ids)
    assert logits.shape == (len(ids), small.info["vocabulary"]) and logits.dtype == np.float32
    assert int(logits[-1].argmax()) == small.generate(PROMPT, max_new=1).tokens[0]
    np.testing.assert_array_equal(small.logits(ids, first=len(ids) - 2), logits[-2:])
    long = np.tile(ids, 40)[:200]
    for first in (0, 63, 64, 150, 199):
        np.testing.assert_array_equal(small.logits(long, first=first), small.logits(long)[first:])


def test_rounds_hold_the_trees(small):
    answer = small.generate(PROMPT, max_new=60, drafter="suffix@policy=fixed", rounds=True)
    assert len(answer.rounds) == answer.statistics["rounds"]
    written = [answer.tokens[0]]
    for round_ in answer.rounds:
        assert round_.tokens[0] == written[-1] and round_.parents[0] == -1
        assert all(parent < node for node, parent in enumerate(round_.parents))
        written += round_.emitted
    assert written == answer.tokens.tolist()
    assert len(set(answer.rounds)) == len(answer.rounds)
    assert small.generate(PROMPT, max_new=2).rounds is None


def test_a_stream_that_is_left_ends(small):
    with small.generate(PROMPT, max_new=400, ignore_end=True, stream=True) as stream:
        for _ in range(3):
            next(stream)
    assert stream.answer.finish == "cancelled"
    assert small.generate(PROMPT, max_new=3).finish == "length"


def test_a_stream_that_is_forgotten_ends(small):
    for token in small.generate(PROMPT, max_new=400, ignore_end=True, stream=True):
        break
    dropped = []
    stream = small.generate(PROMPT, max_new=400, ignore_end=True, stream=True)
    next(stream)
    engine, drop = small._engine, small._engine.drop
    engine.drop = lambda request: (dropped.append(request), drop(request))
    try:
        request = stream._request
        del stream
    finally:
        del engine.drop
    assert dropped == [request] and not engine._streams


def test_a_stream_that_is_closed_while_it_hears_news_ends(small, monkeypatch):
    stream = small.generate(PROMPT, max_new=400, ignore_end=True, stream=True)
    split = stream._parts.split

    def split_and_close(tokens, text):
        stream.close()  # as another thread may at this moment
        return split(tokens, text)

    monkeypatch.setattr(stream._parts, "split", split_and_close)
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    reader.join(timeout=20)
    finish = stream.answer.finish
    stream.close()  # ends a reader that would go on
    assert finish == "cancelled"


def test_a_token_that_another_thread_has_taken_is_not_missed(small):
    class Contended(collections.deque):
        """Another thread takes the first token between a look at it and a grasp."""

        taken: list[talon.Token] = []

        def popleft(self):
            token = super().popleft()
            if self.taken:
                return token
            self.taken.append(token)
            return super().popleft()

    stream = small.generate(PROMPT, max_new=10, drafter="none", stream=True)
    stream._tokens = Contended()
    tokens = list(stream)
    assert [token.id for token in [*Contended.taken, *tokens]] == small.generate(PROMPT, max_new=10).tokens.tolist()


def test_a_request_without_a_stream_ends(small):
    """Ctrl-C may come after the engine has taken it."""
    inner = small._engine._engine
    inner.submit(small.tokenize(PROMPT), {"max_new": 400, "ignore_end": True})
    small.generate(PROMPT, max_new=20, drafter="none")
    assert inner.step() == []


def test_whether_to_stream_may_be_a_variable():
    overloads = typing.get_overloads(talon.Model.generate)
    assert "bool" in [one.__annotations__["stream"] for one in overloads]


def test_streams_may_be_read_by_turns_and_by_threads(small):
    expected = small.generate(PROMPT, max_new=50).tokens.tolist()
    first, second = (small.generate(PROMPT, max_new=50, stream=True) for _ in range(2))
    pairs = list(zip(first, second))
    assert [one.id for one, _ in pairs] == [two.id for _, two in pairs] == expected
    results = []
    threads = [threading.Thread(target=lambda: results.append(small.generate(PROMPT, max_new=50).tokens.tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_who_steps_in_a_loop_keeps_nobody_waiting(small, monkeypatch):
    """Python's own lock may be taken back by who has just given it: hundreds of steps pass then."""
    stop, steps, step = threading.Event(), [], small._engine._step
    monkeypatch.setattr(small._engine, "_step", lambda: (steps.append(None), step()))

    def write():
        while not stop.is_set():
            with small.generate(PROMPT, max_new=400, ignore_end=True, stream=True) as stream:
                any(stop.is_set() for _ in stream)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    waited = []
    for _ in range(30):
        time.sleep(0.01)
        before = len(steps)
        small.generate("One", max_new=1, stream=True).close()
        waited.append(len(steps) - before)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(steps) > 100 and sorted(waited)[-4] <= 10  # a busy machine may hold up a few


def test_the_interpreter_is_free_while_the_engine_computes(chatty):
    ticks, done = 0, threading.Event()

    def count():
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    chatty.generate("word " * 600, max_new=1, reuse_prefix=False)
    done.set()
    thread.join()
    assert ticks > 10
