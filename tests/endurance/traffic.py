"""What the clients of an endurance run do, well-behaved and not. Each function is one visit; what it finds wrong it raises. Visits of
the paths that need a chat template are in chats.py."""
from __future__ import annotations

import http.client
import json
import pathlib
import random
import socket
import subprocess
import time
from dataclasses import dataclass, field

PROMPTS = ["Once upon a time", "The dog and the cat", "One day, Lily found a", "Tim had a red ball. Tim had a red ball. Tim had", "A big bear",
           "Mom said"]
METHODS = [{}, {"drafter": "none"}, {"drafter": "auto"}, {"drafter": "suffix", "policy": "fixed"}, {"drafter": "ngram", "policy": "fixed"}]
LENGTHS = [1, 7, 40, 120]
SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog", "bird"]}, "legs": {"type": "integer", "minimum": 0, "maximum": 8},
                                           "says": {"type": "string", "maxLength": 12}},
          "required": ["kind", "legs", "says"], "additionalProperties": False}


class Wrong(Exception):
    """An answer that the server must not give."""


@dataclass(frozen=True)
class Question:
    prompt: str
    temperature: float
    seed: int
    length: int
    form: str = ""  # of a chat: "chat", or "schema" for one that keeps to SCHEMA

    def fields(self, **more) -> dict:
        return {"prompt": self.prompt, "temperature": self.temperature, "seed": self.seed, "max_tokens": self.length} | more


def questions(*forms: str) -> list[Question]:
    return [Question(prompt, temperature, seed, length, form) for form in forms for prompt in PROMPTS
            for temperature, seed in ((0.0, 1), (0.8, 2), (1.0, 3)) for length in LENGTHS]


@dataclass
class Site:
    """A server and what it should say."""

    address: tuple[str, int]
    texts: dict[Question, str]  # of the longest answer to each prompt and seed
    chats: dict[Question, str] = field(default_factory=dict)  # the same of chats; none: the model has no template
    head: str = ""  # a drafter with a head; none: the model has none
    drafts: list[tuple[float, Question, int, int]] = field(default_factory=list)  # of the head: when, checks, accepted tokens
    counts: dict[str, int] = field(default_factory=dict)
    seen: dict = field(default_factory=dict)

    def compare(self, question: Question, text: str, how: str) -> None:
        """An answer is a beginning of the longest one, all of it at full length, and always the same."""
        whole = (self.chats if question.form else self.texts)[question]
        begin = text.rstrip("\ufffd")  # its last character may be cut
        is_right = text == whole if question.length == max(LENGTHS) else whole.startswith(begin) and bool(text) == bool(whole)
        if not is_right:
            raise Wrong(f"another text of {question}, {how}: {text!r}")
        self.same(question, text, how)
        self.count(f"equal {question.form}".strip())

    def same(self, key, said, how: str) -> None:
        """What was said once is said always."""
        if self.seen.setdefault(key, said) != said:
            raise Wrong(f"another answer to {key}, {how}: {said!r}")

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def post(self, body: bytes, path: str = "/v1/completions", timeout: float = 120) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        connection.request("POST", path, body, {"Content-Type": "application/json", "Connection": "close"})
        return connection.getresponse()


def expected_texts(talon: str, model: str, of: list[Question], folder: pathlib.Path) -> dict[Question, str]:
    """Texts of `of` by `talon run`, without drafts: for each prompt and seed the longest, of which shorter ones are beginnings."""
    texts, longest = {}, {}
    schema = folder / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    options = {"": [], "chat": ["--chat"], "schema": ["--chat", "--json-schema", str(schema)]}
    for question in of:
        key = (question.prompt, question.temperature, question.seed, question.form)
        if key not in longest:
            done = subprocess.run(
                [talon, "run", "-m", model, "-p", question.prompt, "-n", str(max(LENGTHS)), "-d", "none", "--temperature",
                 str(question.temperature), "--seed", str(question.seed), "--json", "--threads", "1", *options[question.form]],
                check=True, capture_output=True, text=True)
            longest[key] = json.loads(done.stdout)
        texts[question] = longest[key]["text"]
    return texts


def pieces(response: http.client.HTTPResponse):
    """The texts of a stream, and at last its finish reason."""
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise Wrong(f"an error within a stream: {event}")
        for choice in event["choices"]:
            yield choice["text"], choice["finish_reason"]


def read_answer(site: Site, path: str, body: dict) -> dict | None:
    """None: the server is full."""
    response = site.post(json.dumps(body).encode(), path)
    found = response.read()
    if response.status == 429:
        return site.count("full")
    if response.status != 200:
        raise Wrong(f"{path}: {response.status} {found[:300]!r}")
    return json.loads(found)


def draft_by_head(site: Site, draw: random.Random, question: Question) -> None:
    """Notes how many tokens a check of the head's drafts accepts."""
    method = {"drafter": site.head, "policy": "fixed", "metrics": True}
    if answer := read_answer(site, "/v1/completions", question.fields(talon=method)):
        site.compare(question, answer["choices"][0]["text"], f"by {method}")
        found = answer["metrics"]["speculative_decoding"]
        site.drafts.append((time.monotonic(), question, found["num_spec_steps"], found["num_accepted_draft_tokens"]))


def take_whole(site: Site, draw: random.Random, question: Question) -> None:
    method = draw.choice(METHODS)
    if answer := read_answer(site, "/v1/completions", question.fields(talon=method)):
        site.compare(question, answer["choices"][0]["text"], f"by {method}")


def take_stream(site: Site, draw: random.Random, question: Question, pause: float = 0) -> None:
    response = site.post(json.dumps(question.fields(stream=True, talon=draw.choice(METHODS))).encode())
    if response.status == 429:
        return site.count("full")
    if response.status != 200:
        raise Wrong(f"{response.status} {response.read()[:300]!r}")
    text = ""
    for piece, _ in pieces(response):
        text += piece
        time.sleep(pause * draw.random())
    site.compare(question, text, "streamed")


def read_slowly(site: Site, draw: random.Random, question: Question) -> None:
    take_stream(site, draw, question, 0.02)


def leave_early(site: Site, draw: random.Random, question: Question) -> None:
    response = site.post(json.dumps(question.fields(stream=True, max_tokens=200)).encode())
    if response.status == 200:
        for _ in range(draw.randrange(4)):
            response.readline()
    response.close()
    site.count("left")


def fill_the_cache(site: Site, draw: random.Random, question: Question) -> None:
    body = question.fields(prompt=question.prompt + " and" * draw.randrange(20, 120), max_tokens=300, n=6, ignore_eos=True)
    response = site.post(json.dumps(body).encode())
    response.read()
    if response.status not in (200, 429):
        raise Wrong(f"{response.status} for a large request")
    site.count("large")


def malformed_bodies(draw: random.Random) -> list[bytes]:
    return [b"", b"{", b"[]", b"nonsense", b'{"prompt": ' + b"[" * 10_000, b'{"prompt": "\xff\xfe"}', b'{"prompt": 1}', bytes(draw.randbytes(300)),
            b'{"prompt": "a", "max_tokens": -1}', b'{"prompt": "a", "temperature": "hot"}', b'{"prompt": "a", "n": 1000000}',
            b'{"prompt": [99999999]}', b'{"prompt": "a", "talon": {"drafter": "eagle3:head=/etc/passwd"}}',
            json.dumps({"prompt": "a", "stop": ["x"] * 1000}).encode(), json.dumps({"prompt": "word " * 20_000}).encode(),
            json.dumps({"prompt": "a", "logit_bias": {str(i): 1 for i in range(5000)}}).encode()]


def malform(site: Site, draw: random.Random, _: Question) -> None:
    body = draw.choice(malformed_bodies(draw))
    response = site.post(body, draw.choice(["/v1/completions", "/v1/chat/completions", "/tokenize", "/v1/responses", "/v1/messages"]))
    found = response.read()
    if response.status >= 500:
        raise Wrong(f"{response.status} for {body[:60]!r}: {found[:200]!r}")
    if response.status == 200 and b"prompt" in body and not body.startswith(b'{"prompt": "'):
        raise Wrong(f"200 for {body[:60]!r}")
    site.count("malformed")


def talk_raw(site: Site, data: bytes, wait: float = 20) -> bytes:
    with socket.create_connection(site.address, timeout=wait) as connection:
        try:
            connection.sendall(data)
            return connection.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            return b""  # refused while we spoke


def be_hostile(site: Site, draw: random.Random, _: Question) -> None:
    data = draw.choice([
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n" + b"a" * 100_000,
        b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + draw.randbytes(200), b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"../" * 200 + b"etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"])
    found = talk_raw(site, data)
    status = found.split(b" ")[1:2]
    if status and not status[0].startswith(b"4"):
        raise Wrong(f"{found[:100]!r} for {data[:60]!r}")
    site.count("hostile")


def trickle(site: Site, draw: random.Random, _: Question) -> None:
    """Slow-loris: headers byte by byte, ten a second. The server ends it within the seconds that it gives to headers (--header-s 3)."""
    sent = 0
    with socket.create_connection(site.address, timeout=20) as connection:
        try:
            for byte in b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 200:
                connection.sendall(bytes([byte]))
                sent += 1
                time.sleep(0.1)
        except (ConnectionResetError, BrokenPipeError):
            pass
    if sent > 100:
        raise Wrong(f"{sent} bytes of a client that trickles were taken")
    site.count("trickled")


def send_half(site: Site, draw: random.Random, _: Question) -> None:
    with socket.create_connection(site.address, timeout=5) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"prompt\": \"Once")
    site.count("half")


VISITS = ([take_whole] * 40 + [take_stream] * 20 + [leave_early] * 10 + [malform] * 8 + [be_hostile] * 5 + [read_slowly] * 4 + [fill_the_cache] * 3
          + [send_half] * 4 + [trickle])
