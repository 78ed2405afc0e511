"""Models that answer."""
from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from typing import Any, Callable, Iterable, Literal, Mapping, Sequence, Union, overload

import numpy as np

from . import _talon, chat, forms, places
from .answers import Answer, Stream
from .engine import SharedEngine
from .errors import ArgumentError, TalonError
from .texts import utf8, whole

Prompt = Union[str, Sequence[chat.Message], Sequence[int], np.ndarray]


class _Bar:
    """Answers that are done, on a terminal."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._due = 0.0

    def show(self, now: bool = False) -> None:
        """Ten times a second, or now: counting takes time for each answer."""
        if not now and time.monotonic() < self._due:
            return
        self._due = time.monotonic() + 0.1
        total = len(self._streams)
        done = sum(one.done for one in self._streams)
        tokens = sum(one.statistics.get("answer_tokens", 0) for one in self._streams)
        filled = 30 * done // max(total, 1)
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total} answers, {tokens} tokens", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        print(file=sys.stderr)


class Model:
    """A language model with an engine that answers.

    >>> model = talon.Model("smollm2")
    >>> print(model.generate([{"role": "user", "content": "Why does it rain?"}]))
    """

    def __init__(self, source: str | os.PathLike[str], *, drafter: str = "auto", models_folder: str | os.PathLike[str] | None = None,
                 threads: int = 0, context: int = 0, weights: str | None = None, cache_mb: int = 0,
                 heads: Sequence[str | os.PathLike[str]] | None = None,
                 backend: Literal["cpu", "reference"] = "cpu", progress: Callable[[str, int, int], None] | None = None) -> None:
        """Opens a GGUF file, a folder of Hugging Face, or by its name what `talon pull` has fetched: a model of the catalogue, or
        OWNER/NAME[@REVISION][:FILE] of a hub.

        drafter: what drafts for answers that name none: DRAFTER[@policy=POLICY][@verify=RULE]; `auto` is the model's head or
        prediction layer joined with `suffix`, `none` plain decoding. With the rule `follow` (the default) it changes the time of
        answers, never their tokens.
        models_folder: of what was fetched; without it $TALON_MODELS, ./downloads and ~/.local/share/talon are looked at.
        threads, context, cache_mb: 0 chooses what fits machine and model.
        weights: kept as stored, or as int8, int4, bf16 or f32.
        heads: folders of draft heads; without it ./models and those that ship with the package.
        progress: called with a path, the tensors that are ready, and all.
        """
        if backend not in ("cpu", "reference"):
            raise ArgumentError(f"backend: expected cpu or reference, found {backend!r}")
        if progress is not None and not callable(progress):
            raise ArgumentError(f"progress: expected a function, found {type(progress).__name__}")
        given = None if models_folder is None else _path("models_folder", models_folder)
        models = given or places.models_folder()
        self._drafter = whole("drafter", drafter)
        self._cache_bytes = _count("cache_mb", cache_mb) << 20
        self._heads = places.head_folders() if heads is None else _folders("heads", heads)
        self._model = _talon.Model(_path("source", source, "a path or a name"), models, backend == "reference", _count("threads", threads),
                                   _count("context", context), None if weights is None else whole("weights", weights), progress)
        self._made: SharedEngine | None = None
        self._making = threading.Lock()
        self._bytes: dict[int, bytes] = {}
        self.info: dict[str, Any] = self._model.describe()
        """path, name, vocabulary, context, hidden, layers, threads, weight_bytes, end_tokens, ..."""

    def __repr__(self) -> str:
        return f"talon.Model({self.info['path']!r})"

    @property
    def _engine(self) -> SharedEngine:
        with self._making:
            if self._made is None:
                self._made = SharedEngine(
                    _talon.Engine(self._model, self._drafter, self._cache_bytes, self._heads, places.costs_folder()))
            return self._made

    @property
    def drafter(self) -> str:
        """What drafts unless an answer says otherwise: what `auto` stands for, say `eagle3+suffix`."""
        return self._engine.drafter

    # ---- Text and tokens ----

    def tokenize(self, text: str, *, special: bool = True, start: bool = True) -> np.ndarray:
        """Token ids (int32). special: texts of special tokens become their ids; start: the start token first, if the model wants
        one."""
        return self._text_ids("text", text, _flag("special", special), _flag("start", start))

    def detokenize(self, ids: Sequence[int] | np.ndarray, *, skip_special: bool = True) -> str:
        """The text of token ids."""
        return self._model.detokenize(_ids("ids", ids), _flag("skip_special", skip_special)).decode()

    def chat_text(self, messages: Sequence[chat.Message], *, generation_prompt: bool = True, **variables: Any) -> str:
        """The conversation as the model's template writes it. variables: what the template may read (`enable_thinking`, ...)."""
        pairs, entries = chat.read(messages)
        return self._model.chat_text(pairs, entries, _flag("generation_prompt", generation_prompt), _json(variables)).decode()

    def chat_tokens(self, messages: Sequence[chat.Message], *, generation_prompt: bool = True, **variables: Any) -> np.ndarray:
        """The conversation as the model is fed it. Special tokens come from the template alone, never from what messages say."""
        return self._chat_ids(messages, _flag("generation_prompt", generation_prompt), _json(variables))

    def logits(self, ids: Sequence[int] | np.ndarray, *, first: int = 0) -> np.ndarray:
        """The model's own numbers (float32, [len(ids) - first, vocabulary]) after each token from number `first` on."""
        return self._model.logits(_some("ids", _ids("ids", ids)), _count("first", first))

    # ---- Answers ----

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: bool, **options: Any) -> Answer | Stream: ...

    def generate(self, prompt: Any, *, drafter: str | None = None, max_new: int = 256, temperature: float = 0.0, seed: int = 1,
                 stop: str | Sequence[str] = (), json_schema: Mapping[str, Any] | str | bool | None = None, regex: str | None = None,
                 grammar: str | None = None, choices: Sequence[str] | None = None, expected: Any = None, stream: bool = False,
                 rounds: bool = False, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Answers a prompt: a text, a list of messages, or token ids.

        The answer is a function of the prompt and of what follows, not of the drafter, of other answers that run, or of threads.

        drafter: DRAFTER[@policy=POLICY][@verify=RULE], as `talon help methods` lists them.
        temperature: 0 takes the most probable token. seed: of the draws.
        stop: texts that end the answer.
        json_schema, regex, grammar, choices: one of them is the form that the answer keeps to, unless its length ends it: a JSON
        schema (a dictionary, or its text), a regular expression, a grammar (llguidance's Lark, or llama.cpp's GBNF), or texts of
        which it is one. Drafts keep to it, too.
        expected: a text or token ids that the answer may be like (a file before its change, say): drafts follow it.
        stream: returns a Stream, which yields each Token as it comes; else the finished Answer.
        rounds: keep every draft tree in `Answer.rounds`.
        variables: what the chat template may read.
        options: top_k, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty, penalty_window,
        logit_bias ({id: bias}), banned (ids), end_tokens (ids besides the model's own), ignore_end, min_new, choice, logprobs (how
        many others for each token), reuse_prefix, tenant, priority, deadline_ms.
        """
        fields = {"max_new": max_new, "temperature": temperature, "seed": seed, "stop": _stops(stop), **options,
                  **forms.field_of(json_schema, regex, grammar, choices)}
        if drafter is not None:
            fields["drafter"] = whole("drafter", drafter) if isinstance(drafter, str) else drafter
        if expected is not None:
            fields["expected"] = self._expected_ids(expected)
        answer = self._submit(prompt, fields, rounds, _json(variables))
        return answer if stream else answer.result()

    def generate_batch(self, prompts: Iterable[Any], *, seeds: Sequence[int] | None = None, progress: bool | None = None,
                       drafter: str | None = None, max_new: int = 256, temperature: float = 0.0, seed: int = 1,
                       stop: str | Sequence[str] = (), json_schema: Mapping[str, Any] | str | bool | None = None,
                       regex: str | None = None, grammar: str | None = None, choices: Sequence[str] | None = None,
                       variables: Mapping[str, Any] | None = None, **options: Any) -> list[Answer]:
        """Answers many prompts through one engine at once, and returns the answers in their order. Each is what `generate` gives
        for the same prompt.

        seeds: one for each prompt, instead of `seed` for all. progress: a bar on standard error; None: if that is a terminal.
        json_schema, regex, grammar, choices and options: as of `generate`, for all.
        """
        if isinstance(prompts, (str, Mapping)) or not isinstance(prompts, Iterable):
            raise ArgumentError(f"prompts: expected a list of prompts, found one {type(prompts).__name__}")
        prompts = list(prompts)
        if seeds is not None and not isinstance(seeds, (Sequence, np.ndarray)):
            raise ArgumentError(f"seeds: expected a list of seeds, found {type(seeds).__name__}")
        if seeds is not None and len(seeds) != len(prompts):
            raise ArgumentError(f"seeds: expected {len(prompts)}, one for each prompt, found {len(seeds)}")
        if "stream" in options:
            raise ArgumentError("stream: expected no such option of a batch, whose answers are whole, found one")
        shared = {"drafter": drafter, "max_new": max_new, "temperature": temperature, "stop": stop, "json_schema": json_schema,
                  "regex": regex, "grammar": grammar, "choices": choices, "variables": variables, **options}
        terminal = sys.stderr  # None where a program has closed it
        shown = terminal is not None and (terminal.isatty() if progress is None else progress)
        streams: list[Stream] = []
        bar = _Bar(streams) if shown and prompts else None
        try:
            for place, prompt in enumerate(prompts):
                own = seed if seeds is None else seeds[place]
                try:
                    streams.append(self.generate(prompt, seed=own, stream=True, **shared))
                except TalonError as error:
                    raise type(error)(_of_batch(str(error), place, shared, seeds is not None)) from None
            for stream in streams:
                for _ in stream:
                    if bar:
                        bar.show()
            if bar:
                bar.show(now=True)
        finally:
            for stream in streams:
                stream.close()
            if bar:
                bar.end()
        return [stream.answer for stream in streams]

    def _submit(self, prompt: Any, fields: dict[str, Any], rounds: bool, variables: str | None) -> Stream:
        ids = _some("prompt", self._prompt_ids(prompt, variables))
        return self._engine.submit(ids, fields, lambda request: Stream(self, request, rounds))

    def _prompt_ids(self, prompt: Any, variables: str | None) -> np.ndarray:
        if isinstance(prompt, str):
            return self._text_ids("prompt", prompt)
        if isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], Mapping):
            return self._chat_ids(prompt, True, variables)
        if isinstance(prompt, (bytes, bytearray)) or not isinstance(prompt, (Sequence, np.ndarray)):
            raise ArgumentError(f"prompt: expected a text, messages or token ids, found {type(prompt).__name__}")
        return _ids("prompt", prompt)

    def _text_ids(self, name: str, text: Any, special: bool = True, start: bool = True) -> np.ndarray:
        known = utf8(name, text)
        try:
            return self._model.tokenize(known, special, start)
        except ArgumentError as error:  # it is longer than any text may be
            raise ArgumentError(f"{name}: {error}") from None

    def _chat_ids(self, messages: Sequence[chat.Message], generation_prompt: bool, variables: str | None) -> np.ndarray:
        pairs, entries = chat.read(messages)
        return self._model.chat_tokenize(pairs, entries, generation_prompt, variables)

    def _expected_ids(self, expected: Any) -> list[int]:
        if isinstance(expected, str):
            return list(map(int, self._text_ids("expected", expected, special=False, start=False)))
        if not isinstance(expected, (Sequence, np.ndarray)):
            raise ArgumentError(f"expected: expected a text or token ids, found {type(expected).__name__}")
        return list(map(int, _ids("expected", expected)))

    def _visible_bytes(self, token: int) -> bytes:
        """What a token adds to an answer's text: nothing for a special one."""
        known = self._bytes.get(token)
        if known is None:
            one = np.array([token], np.int32)
            special = not self._model.detokenize(one, True) and bool(self._model.detokenize(one, False))
            known = self._bytes[token] = b"" if special else self._model.token_bytes(token)
        return known


def _path(name: str, path: Any, expected: str = "a path") -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"{name}: expected {expected}, found {type(path).__name__}")
    return whole(name, os.fspath(path))


def _folders(name: str, folders: Any) -> list[str]:
    if isinstance(folders, (str, bytes, os.PathLike)) or not isinstance(folders, Iterable):
        raise ArgumentError(f"{name}: expected a list of folders, found {type(folders).__name__}")
    return [_path(f"{name}[{place}]", folder) for place, folder in enumerate(folders)]


def _count(name: str, count: Any) -> int:
    if not isinstance(count, (int, np.integer)) or not 0 <= count < 1 << 31:
        raise ArgumentError(f"{name}: expected a whole number of 0 or more that fits, found {count!r}")
    return int(count)


def _flag(name: str, flag: Any) -> bool:
    if not isinstance(flag, (bool, np.bool_)):
        raise ArgumentError(f"{name}: expected True or False, found {flag!r}")
    return bool(flag)


def _of_batch(message: str, place: int, shared: Mapping[str, Any], has_seeds: bool) -> str:
    """What went wrong with one prompt of a batch. Names the prompt, unless it is about what all of them share."""
    name = re.split(r"\W", message, maxsplit=1)[0]
    if name == "seed" and has_seeds:
        return f"seeds[{place}]{message.removeprefix(name)}"
    return message if name == "seed" or name in shared else f"prompts[{place}]: {message}"


def _stops(stop: Any) -> Any:
    """`stop` as the engine takes it, which refuses what is no list of texts."""
    if isinstance(stop, str):
        return [whole("stop", stop)]
    for place, text in enumerate(stop if isinstance(stop, Sequence) else ()):
        if isinstance(text, str):
            whole(f"stop[{place}]", text)
    return stop


def _ids(name: str, ids: Any) -> np.ndarray:
    """`ids` as the engine takes them."""
    if isinstance(ids, (bytes, bytearray)):  # whose bytes numpy would take for ids
        raise ArgumentError(f"{name}: expected a list of token ids, found {type(ids).__name__}")
    try:
        array = np.asarray(ids)
    except ValueError:  # rows of several lengths, say
        raise ArgumentError(f"{name}: expected a list of token ids, found one that is no array") from None
    if array.size == 0 and array.ndim == 1:
        return array.astype(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(f"{name}: expected a list of token ids, found {array.dtype} of shape {list(array.shape)}")
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise ArgumentError(f"{name}: expected token ids of 0 or more that fit 32 bits, found {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, np.int32)


def _some(name: str, ids: np.ndarray) -> np.ndarray:
    if ids.size == 0:
        raise ArgumentError(f"{name}: expected at least one token, found none")
    return ids


def _json(variables: Mapping[str, Any] | None) -> str | None:
    if variables is None:
        return None
    if not isinstance(variables, Mapping):
        raise ArgumentError(f"variables: expected a dictionary, found {type(variables).__name__}")
    try:
        return json.dumps(dict(variables), allow_nan=False) if variables else None
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"variables: expected values that JSON can hold, found one that it cannot: {error}") from None
