import os
import pathlib
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import talon
from conftest import SMALL


@pytest.mark.parametrize("options, words", [
    ({"top_p": 2.0}, "^top_p"), ({"temperature": -1}, "^temperature"), ({"max_new": 0}, "^max_new"),
    ({"drafter": "nosuch"}, '^drafter: expected one of .*found "nosuch"'), ({"drafter": "suffix@policy=nosuch"}, "^drafter: policy: .*nosuch"),
    ({"drafter": "suffix@verify=nosuch"}, "^drafter: verify: .*nosuch"), ({"drafter": "suffix@rule=token"}, '^drafter: .*found "@rule=token"'),
    ({"drafter": "suffix:nosuch=1"}, "^drafter: suffix: .*nosuch"), ({"logprobs": -2}, "^logprobs: expected -1"),
    ({"banned": [99999]}, "banned"), ({"nosuch": 1}, "^nosuch"),
    ({"stop": [""]}, "^stop: "), ({"expected": b"ab"}, "^expected: .*found bytes"), ({"expected": "a" * 17_000_000}, "^expected: bytes: "),
    ({"variables": []}, "^variables: expected a dictionary"), ({"deadline_ms": -1.0}, "^deadline_ms"),
    ({"seed": "x"}, "^seed: expected a whole number that fits, found 'x'"), ({"max_new": 1 << 40}, "^max_new: .*found 1099511627776"),
    ({"max_new": 2.5}, "^max_new: .*found 2.5"), ({"max_new": np.float64(2.5)}, "^max_new: .*2.5"), ({"seed": "3"}, "^seed: .*found '3'"),
    ({"banned": [np.float32(2.5)]}, "^banned: expected a list of token ids, found .*2.5"),
    ({"end_tokens": np.array([1.5])}, "^end_tokens: expected a list of token ids"), ({"logit_bias": {"3": 1.0}}, "^logit_bias: .*found '3'"),
    ({"temperature": "hot"}, "^temperature: expected a number, found 'hot'"),
    ({"temperature": None}, "^temperature: expected a number, found None"), ({"stop": 3}, "^stop: expected a text or a list of texts"),
    ({"stop": ["a", 3]}, "^stop"), ({"stop": "a\0b"}, "^stop: expected a text without zero bytes, found one at 1"),
    ({"stop": ["a", "b\0"]}, r"^stop\[1\]: .*zero bytes"), ({"stop": ["a\ud800"]}, r"^stop\[0\]: .*UTF-8"),
    ({"drafter": "none\0"}, "^drafter: .*zero bytes"), ({"drafter": "\ud800"}, "^drafter: .*UTF-8"),
    ({"drafter": 3}, "^drafter: expected a text"), ({"banned": "ab"}, "^banned: expected a list of token ids"),
    ({"logit_bias": [3]}, "^logit_bias: expected a dictionary"), ({"ignore_end": "x"}, "^ignore_end: expected True or False"),
    ({"expected": 3}, "^expected: expected a text or token ids, found int"), ({"expected": [99999]}, "^expected: .*found 99999"),
    ({"expected": "a\ud800"}, "^expected: .*UTF-8")])
def test_each_wrong_option_is_a_value_error_that_names_it(small, options, words):
    with pytest.raises(talon.ArgumentError, match=words) as raised:
        small.generate("a", **options)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("prompt, words", [
    (3, "prompt"), ([], "^prompt: expected at least one token"), ([99999], "99999"), ([0.5], "float"), ([[1]], "shape"), ([-1], "-1"),
    (b"ab", "^prompt: .*found bytes"), (bytearray(b"ab"), "^prompt: .*found bytearray"), ("a" * 17_000_000, "^prompt: bytes: "),
    ("a\ud800", "prompt: .*UTF-8.*at 1"), ([[1], [1, 2]], "^prompt: expected a list of token ids")])
def test_each_wrong_prompt_is_a_value_error(small, prompt, words):
    with pytest.raises(talon.ArgumentError, match=words):
        small.generate(prompt)


@pytest.mark.parametrize("prompts", ["Once", 5])
def test_one_prompt_is_no_batch(small, prompts):
    with pytest.raises(talon.ArgumentError, match="prompts: expected a list"):
        small.generate_batch(prompts, max_new=2)


def test_seeds_of_a_batch_are_a_list(small):
    with pytest.raises(talon.ArgumentError, match="^seeds: expected a list of seeds, found generator"):
        small.generate_batch(["a"], seeds=(seed for seed in [1]), max_new=1)


@pytest.mark.parametrize("options, words", [
    ({"temperature": -1}, "^temperature: "), ({"drafter": "nosuch"}, "^drafter: "), ({"stop": [""]}, "^stop: "), ({"top_k": -1}, "^top_k: "),
    ({"seed": "x"}, "^seed: "), ({"variables": 3}, "^variables: "), ({"nosuch": 1}, "^nosuch: "), ({"stream": True}, "^stream: "),
    ({"seeds": [1, "x"]}, r"^seeds\[1\]: expected a whole number"), ({"seeds": [1, -1]}, r"^seeds\[1\]: .*found -1")])
def test_a_batch_names_the_option_that_is_wrong(small, options, words):
    with pytest.raises(talon.ArgumentError, match=words):
        small.generate_batch(["a", "b"], **{"max_new": 1, **options})
    assert not small._engine._streams


def test_a_call_that_would_wait_for_itself_is_refused(small):
    with small._engine._turn:  # as where a signal's handler interrupts who steps
        with pytest.raises(talon.ArgumentError, match="would wait for"):
            small.generate("a", max_new=1)
    assert len(small.generate("a", max_new=1).tokens) == 1


def test_answers_of_a_chat_are_whole(small):
    with pytest.raises(talon.ArgumentError, match="^stream: "):
        talon.Chat(small, stream=True)
    with pytest.raises(talon.ArgumentError, match="^stream: "):
        talon.Chat(small).say("a", stream=True)


@pytest.mark.parametrize("call, words", [
    (lambda model: model.logits([1, 99999]), r"^ids\[1\]: .*found 99999"), (lambda model: model.logits([1] * 600), "^ids: expected at most 512"),
    (lambda model: model.detokenize([99999]), r"^ids\[0\]: .*found 99999"), (lambda model: model.detokenize(bytearray(b"ab")), "^ids: .*found bytearray"),
    (lambda model: model.detokenize([1], skip_special=0), "^skip_special: expected True or False, found 0"),
    (lambda model: model.tokenize("a" * 17_000_000), "^text: bytes: expected at most 16777216"),
    (lambda model: model.tokenize("a", special=1), "^special: expected True or False"), (lambda model: model.tokenize("a", start=None), "^start: "),
    (lambda model: model.chat_text([talon.chat.user("a")], generation_prompt="no"), "^generation_prompt: "),
    (lambda model: model.chat_tokens([talon.chat.user("a")], generation_prompt=1), "^generation_prompt: ")])
def test_each_wrong_argument_about_texts_is_named(small, call, words):
    with pytest.raises(talon.ArgumentError, match=words):
        call(small)


def test_logits_are_of_some_tokens(small):
    with pytest.raises(talon.ArgumentError, match="^ids: expected at least one token"):
        small.logits([])


@pytest.mark.parametrize("first", ["a", 1.5, -1])
def test_the_first_row_of_logits_is_a_count(small, first):
    with pytest.raises(talon.ArgumentError, match="^first: expected a whole number"):
        small.logits([1, 2], first=first)


def test_a_model_is_named_by_a_path_of_any_kind(small):
    assert talon.Model(pathlib.Path(SMALL), drafter="none").info["vocabulary"] == small.info["vocabulary"]
    with pytest.raises(talon.ArgumentError, match="source: expected a path or a name, found int"):
        talon.Model(5)


@pytest.mark.parametrize("options, words", [
    ({"heads": "/folder"}, "^heads: expected a list of folders, found str"), ({"heads": [3]}, r"^heads\[0\]: expected a path, found int"),
    ({"heads": ["a\0"]}, r"^heads\[0\]: .*zero bytes"), ({"models_folder": 3}, "^models_folder: expected a path"),
    ({"models_folder": "a\0"}, "^models_folder: .*zero bytes"), ({"cache_mb": -1}, "^cache_mb: expected .*found -1"),
    ({"cache_mb": 1 << 40}, "^cache_mb: "), ({"cache_mb": 0.5}, "^cache_mb: "), ({"threads": "4"}, "^threads: expected .*found '4'"),
    ({"threads": -1}, "^threads: "), ({"context": None}, "^context: expected .*found None"), ({"drafter": None}, "^drafter: expected a text"),
    ({"drafter": "none\0"}, "^drafter: .*zero bytes"), ({"weights": 8}, "^weights: expected a text"), ({"weights": "int8\0"}, "^weights: .*zero"),
    ({"models_folder": 0}, "^models_folder: expected a path, found int"), ({"progress": 3}, "^progress: expected a function, found int")])
def test_each_wrong_option_of_a_model_is_named(options, words):
    with pytest.raises(talon.ArgumentError, match=words):
        talon.Model(SMALL, **options)


@pytest.mark.parametrize("drafter", ["nosuch", "suffix@policy=nosuch", ""])
def test_a_drafter_of_a_model_that_is_none_is_named(drafter):
    model = talon.Model(SMALL, drafter=drafter, threads=1)
    with pytest.raises(talon.ArgumentError, match="^drafter: .*expected .*"):
        model.generate("a", max_new=1)


def test_a_zero_byte_ends_no_path():
    with pytest.raises(talon.ArgumentError, match="^source: .*zero bytes"):
        talon.Model(SMALL + "\0x")


def test_places_are_paths_of_any_kind():
    model = talon.Model(SMALL, models_folder=pathlib.Path("/nowhere"), heads=[pathlib.Path("/nowhere")], threads=1)
    assert model.drafter == "suffix"


@pytest.mark.parametrize("prompt, words", [("a\ud800", r"^prompts\[1\]: prompt: .*UTF-8"), ([99999], r"^prompts\[1\]: .*99999")])
def test_a_batch_names_the_prompt_that_is_wrong(small, prompt, words):
    with pytest.raises(talon.ArgumentError, match=words):
        small.generate_batch(["a", prompt], max_new=1)


def test_a_long_prompt_of_a_batch_keeps_its_class(small):
    with pytest.raises(talon.TooLongError, match=r"^prompts\[0\]"):
        small.generate_batch([[403] * 5000])


def test_variables_leave_the_messages_alone(small):
    with pytest.raises(talon.ArgumentError, match=r"^variables\.add_generation_prompt: expected no such entry"):
        small.generate([talon.chat.user("hi")], variables={"add_generation_prompt": False})


@pytest.mark.parametrize("variables", [{"x": {1}}, {"x": object()}, {"x": float("nan")}, [1], 3])
def test_variables_are_what_json_can_hold(small, variables):
    with pytest.raises(talon.ArgumentError, match="^variables: expected"):
        small.generate([talon.chat.user("hi")], variables=variables)


def test_a_long_prompt_has_its_own_class(small):
    with pytest.raises(talon.TooLongError):
        small.generate([403] * 5000)


def test_a_long_chat_has_that_class_too(chatty):
    with pytest.raises(talon.TooLongError):
        chatty.generate([talon.chat.user("x" * 10**7)])


def test_logits_of_too_many_ids_take_no_memory(small):
    ids = [403] * 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(talon.TooLongError):
        small.logits(ids)
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert taken < len(ids) * small.info["vocabulary"]  # a quarter of what the numbers would be


def test_files_that_are_no_models_are_named(tmp_path):
    with pytest.raises(talon.TalonError, match="no/such/file"):
        talon.Model("/no/such/file")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(talon.TalonError, match="broken.gguf"):
        talon.Model(str(broken))


def test_a_model_without_a_template_says_so(small):
    with pytest.raises(talon.TalonError, match="template"):
        small.generate([talon.chat.user("hi")])


def test_what_a_progress_callback_raises_comes_out():
    seen = []

    def stop(path, done, total):
        seen.append((done, total))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        talon.Model(SMALL, progress=stop)
    assert len(seen) == 1
    talon.Model(SMALL, progress=lambda path, done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 1


def test_control_c_ends_an_answer():
    script = textwrap.dedent(f"""
        import talon
        model = talon.Model({SMALL!r}, threads=1)
        try:
            print("ready", flush=True)
            while True:
                model.generate("Once upon a time", max_new=400, ignore_end=True)
        except KeyboardInterrupt:
            print(len(model.generate("Once", max_new=5).tokens))
    """)
    package = str(pathlib.Path(talon.__file__).parents[1])
    # What shells start in the background ignores Ctrl-C, and so would the child.
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": package},
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()  # one that does not hear it goes on for good
    assert output == "5\n" and process.returncode == 0


def test_signals_are_heard_while_logits_are_computed():
    model = talon.Model(SMALL, backend="reference", threads=1)
    ids, heard = np.full(512, 403, np.int32), []

    def listen_to_alarms(handler):
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            model._model.logits(ids, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def stop(number, frame):
        heard.append(number)
        if len(heard) == 1:
            raise KeyError("mine")

    listen_to_alarms(lambda number, frame: heard.append(number))
    assert len(heard) >= 6  # of eight forwards
    heard.clear()
    with pytest.raises(KeyError, match="mine"):
        listen_to_alarms(stop)
    assert model.logits(ids[:2]).shape == (2, 512)


@pytest.mark.parametrize("work", ["model.generate('Once', max_new=5)", "talon.Model(model.info['path'], threads=1)"])
def test_the_interpreter_ends_while_daemon_threads_compute(work):
    script = textwrap.dedent(f"""
        import threading, talon
        model = talon.Model({SMALL!r}, threads=1)
        begun = [threading.Event() for _ in range(3)]

        def write(event):
            while True:
                {work}
                event.set()

        for event in begun:
            threading.Thread(target=write, args=[event], daemon=True).start()
        for event in begun:
            event.wait()
    """)
    package = str(pathlib.Path(talon.__file__).parents[1])
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": package}, timeout=60)
        assert done.returncode == 0


def test_what_interrupts_one_answer_ends_those_beside_it(small, monkeypatch):
    first, second = (small.generate("Once", max_new=50, stream=True) for _ in range(2))
    next(second)

    def interrupted(news):
        raise KeyboardInterrupt

    monkeypatch.setattr(first, "_hear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(first)
    assert first.answer.finish == second.answer.finish == "cancelled"
    expected = small.generate("Once", max_new=50).tokens.tolist()
    written = second.answer.tokens.tolist()
    assert written == expected[: len(written)]


def test_many_models_leave_nothing_behind():
    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def once() -> None:
        model = talon.Model(SMALL, threads=1)
        stream = model.generate("a", max_new=20, stream=True)
        next(stream)

    for _ in range(5):
        once()
    before = resident()
    for _ in range(30):
        once()
    assert resident() - before < 20_000_000
