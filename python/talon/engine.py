"""One engine for all answers of a model, stepped by whoever waits for one."""
from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from . import _talon

if TYPE_CHECKING:
    from .answers import Stream


_log = logging.getLogger("talon")
_LEVELS = (logging.INFO, logging.WARNING)  # by the library's own


class SharedEngine:
    """Hands the news of every step to the streams that they belong to. Any thread may call."""

    def __init__(self, engine: _talon.Engine) -> None:
        self._engine = engine
        self._streams: dict[int, weakref.ref[Stream]] = {}
        self._keeping: set[int] = set()  # of them, those that keep their rounds
        self._turn = _talon.Turns()  # of stepping, and of the streams
        self._tell_notes()

    @property
    def drafter(self) -> str:
        return self._engine.drafter

    def submit(self, prompt: np.ndarray, fields: dict[str, Any], make: Callable[[int], Stream]) -> Stream:
        with self._turn:  # so that no step's news come before there is somebody to hear them
            try:
                request = self._engine.submit(prompt, fields)
            finally:
                self._tell_notes()
            stream = make(request)
            self._streams[request] = weakref.ref(stream)
            if stream.answer.rounds is not None:
                self._keeping.add(request)
            self._keep_rounds()
        return stream

    def drop(self, request: int) -> None:
        self._engine.cancel(request)
        self._forget(request)

    def advance(self, waiting: Stream) -> None:
        """Steps once, unless another thread has brought what `waiting` waits for."""
        with self._turn:
            if waiting._tokens or waiting.done:
                return
            try:
                self._step()
            except BaseException:  # Ctrl-C, say: news of any answer may be lost, so none goes on
                for stream in [reference() for reference in list(self._streams.values())]:
                    if stream:
                        stream.close()
                raise

    def _step(self) -> None:
        all_news = self._engine.step()
        for round_ in self._engine.take_rounds():
            if stream := self._stream(round_.request):
                stream._hear_round(round_)
        for news in all_news:
            if stream := self._stream(news.request):
                stream._hear(news)
            elif not news.finish:  # Ctrl-C came before it had a stream
                self._engine.cancel(news.request)
            if news.finish:
                self._forget(news.request)
                self._keep_rounds()
        self._tell_notes()

    def _tell_notes(self) -> None:
        for level, text in self._engine.take_notes():
            _log.log(_LEVELS[level], "%s", text.decode("utf-8", "replace"))

    def _stream(self, request: int) -> Stream | None:
        reference = self._streams.get(request)
        return reference() if reference else None

    def _forget(self, request: int) -> None:
        self._streams.pop(request, None)
        self._keeping.discard(request)

    def _keep_rounds(self) -> None:
        self._engine.keep_rounds(bool(self._keeping))
