"""What a model says: tokens as they come, and finished answers."""
from __future__ import annotations

import codecs
import collections
import dataclasses
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from . import _talon
from .errors import TalonError

if TYPE_CHECKING:
    from .model import Model


@dataclasses.dataclass(frozen=True)
class Token:
    """One token of an answer."""

    id: int
    text: str
    """New text that came with it. A character of several tokens comes with the last of them, text that may become a stop text
    later or never. All joined are the answer's text, unless it was cut off."""
    accepted: bool
    """Whether it had been drafted; else the model itself drew it."""
    logprob: float | None = None
    """Natural logarithm of its probability in the model's own row, if `logprobs` asked for it."""
    top_logprobs: list[tuple[int, float]] | None = None
    """Ids and log-probabilities of the most probable tokens there."""


@dataclasses.dataclass(frozen=True, eq=False)
class Round:
    """One check: the tree that was drafted and what became of it. Equal to itself alone, since arrays have no one answer."""

    round: int
    position: int
    """Of the root in the text."""
    tokens: np.ndarray
    """Of the nodes. Node 0 is the last token of the text; parents precede children."""
    parents: np.ndarray
    log_p: np.ndarray
    """Of the whole path to each node, as the drafter believes."""
    accepted: list[int]
    """Ids of the nodes that became text, the root first."""
    emitted: list[int]
    """The tokens that became text: those of the accepted nodes, and the one after them."""
    draft_ms: float
    check_ms: float


class Answer:
    """What has been written: whole once it has ended."""

    def __init__(self, keeps_rounds: bool = False) -> None:
        self.text = ""
        self.finish = "none"
        """stop, stop_text, length, cancelled, deadline or no_room."""
        self.statistics: dict[str, Any] = {}
        """Counts and times; `tau` is tokens per check, `tokens_per_second` is after the first."""
        self.rounds: list[Round] | None = [] if keeps_rounds else None
        """With `rounds=True`: every check."""
        self._tokens: list[int] = []
        self._accepted: list[bool] = []
        self._logprobs: list[float] = []

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<talon.Answer of {len(self._tokens)} tokens, {self.finish}: {self.text!r}>"

    @property
    def tokens(self) -> np.ndarray:
        """Their ids, int32."""
        return np.array(self._tokens, np.int32)

    @property
    def accepted(self) -> np.ndarray:
        """For each token, whether it had been drafted."""
        return np.array(self._accepted, bool)

    @property
    def logprobs(self) -> np.ndarray | None:
        """With `logprobs`: the natural logarithm of each token's probability in the model's own row, float64."""
        return np.array(self._logprobs) if self._logprobs else None


class _TokenText:
    """Gives each token its part of the text that a round brought."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._due = 0  # characters of the tokens so far
        self._given = 0  # of them, with tokens that were shown

    def split(self, tokens: list[int], text: str) -> Iterator[str]:
        for number, token in enumerate(tokens, 1):
            self._due += len(self._decoder.decode(self._model._visible_bytes(token)))
            part = text if number == len(tokens) else text[: max(0, self._due - self._given)]
            self._given += len(part)
            text = text[len(part):]
            yield part


class Stream:
    """An answer that is being written: iterate over it for its tokens. `answer` grows with them and is whole at the end. Closing
    it, or leaving its `with` block, ends the answer as cancelled."""

    def __init__(self, model: "Model", request: int, keeps_rounds: bool) -> None:
        self._engine = model._engine
        self._request = request
        self._parts = _TokenText(model)
        self._tokens: collections.deque[Token] = collections.deque()
        self._failure: TalonError | None = None
        self.answer = Answer(keeps_rounds)

    @property
    def done(self) -> bool:
        """Whether the answer has ended; tokens may still wait to be read."""
        return self.answer.finish != "none" or self._failure is not None

    @property
    def statistics(self) -> dict[str, Any]:
        """Counts and times so far."""
        return self.answer.statistics

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Token:
        try:
            while True:
                done = self.done  # asked first: the last tokens come before the end
                try:
                    return self._tokens.popleft()
                except IndexError:  # none, or another thread has taken it
                    pass
                if done:
                    break
                self._engine.advance(self)
        except BaseException:
            self.close()
            raise
        if self._failure:
            raise self._failure
        raise StopIteration

    def result(self) -> Answer:
        """Reads to the end and returns the answer."""
        for _ in self:
            pass
        return self.answer

    def close(self) -> None:
        """Ends the answer, unless it has ended."""
        if not self.done:
            self._engine.drop(self._request)
            self.answer.finish = "cancelled"

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter ends
            pass

    def _hear(self, news: _talon.News) -> None:
        answer = self.answer
        text = news.text.decode("utf-8", "replace")
        answer.text += text
        answer.statistics = news.statistics
        answer._logprobs += news.logprobs
        for place, (token, part) in enumerate(zip(news.tokens, self._parts.split(news.tokens, text))):
            answer._tokens.append(token)
            answer._accepted.append(place < news.accepted)
            self._tokens.append(Token(token, part, place < news.accepted, news.logprobs[place] if news.logprobs else None,
                                      news.top[place] if news.top else None))
        finish = _talon.finish_name(news.finish)
        if finish == "none" or self.done:  # done: another thread has closed it meanwhile
            return
        if finish == "failed":
            self._failure = TalonError(news.error.decode("utf-8", "replace"))
        answer.finish = finish

    def _hear_round(self, round_: _talon.Round) -> None:
        if self.answer.rounds is not None:
            self.answer.rounds.append(
                Round(round_.round, round_.position, np.array(round_.tokens, np.int32), np.array(round_.parents, np.int32),
                      np.array(round_.log_p, np.float32), round_.accepted, round_.emitted, round_.draft_ms, round_.check_ms))
