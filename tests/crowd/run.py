"""Exact in a crowd: mixed requests to `talon serve` at several concurrencies and with a cache that is too small for the longest, among
clients that leave and clients that read slowly. Every text is that of `talon run -d none`, of requests with tools token by token. What
`talon run` does not have (log-probabilities, a second choice, how calls are told) is that of the server without drafts and with nothing
beside it. Says first how long the server takes to be ready. Prints a line of JSON for each level and exits with 1 if any text differs.

usage: run.py TALON MODEL FOLDER [REQUESTS=200]     FOLDER keeps what was expected
"""
import hashlib
import http.client
import itertools
import json
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

import answers
from asked import COMPLETION, Request, long_requests, requests, spread

LEVELS = [(1, 0), (4, 0), (16, 0), (16, 48)]  # requests at once, cache in MiB (0: one whole context)
STARTS = 3
MOST_READY_S = 1.0
PATIENCE_S = 1800  # of a client of a whole answer as long as the context


class Server:
    def __init__(self, talon: str, model: str, cache_mb: int = 0) -> None:
        begin = time.monotonic()
        self.process = subprocess.Popen([talon, "serve", "-m", f"model={model}", "--port", "0", "--cache-mb", str(cache_mb)],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
                self.address = (found.group(1), int(found.group(2)))
                threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
                self.get("/ready")
                self.ready_s = time.monotonic() - begin
                return
        raise SystemExit("crowd: the server did not start")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        if end := self.process.wait(120):
            raise SystemExit(f"crowd: the server ended with {end}")

    def open(self, path: str, body: dict, receive_bytes: int = 0) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        connection.sock = socket.socket()
        connection.sock.settimeout(PATIENCE_S)
        if receive_bytes:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.sock.connect(self.address)
        connection.request("POST", path, json.dumps(body))
        return connection.getresponse()

    def post(self, path: str, body: dict) -> dict:
        response = self.open(path, body)
        text = response.read()
        if response.status != 200:
            raise ValueError(f"{path}: {response.status} {text[:300]!r}")
        return json.loads(text)

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise ValueError(f"{path}: {response.status} {text[:300]}")
        return text

    def metric(self, name: str) -> float:
        return sum(map(float, re.findall(rf"^talon:{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics"), re.M)))

    def prompt(self, request: Request) -> str:
        """As the model's template writes it."""
        return self.post("/apply-template", request.rendered())["prompt"]


def slowly(response: http.client.HTTPResponse):
    for line in response:
        time.sleep(0.01)
        yield line


def ask(server: Server, request: Request, talon: dict, way: str) -> list[answers.Choice]:
    """Throws ValueError for an answer that is an error."""
    body = {**request.fields(), "model": "model", "talon": talon}
    if request.path == COMPLETION and "messages" in body:
        del body["messages"]
        body["prompt"] = server.prompt(request)
    if way == "leaves":
        gone = server.open(request.path, {**body, "stream": True})
        gone.readline()
        gone.close()
    streams = way in ("stream", "slow")
    response = server.open(request.path, {**body, "stream": streams}, 4096 if way == "slow" else 0)
    if response.status != 200:
        raise ValueError(f"{response.status}: {response.read()[:300]!r}")
    if not streams:
        return answers.whole(request.path, json.loads(response.read()))
    return answers.joined(request.path, slowly(response) if way == "slow" else response)


def run_alone(talon: str, model: str, options: list[str]) -> dict:
    run = subprocess.run([talon, "run", "-m", model, "--json", *options], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"crowd: talon run {' '.join(options)[:500]}: {run.stderr}")
    return json.loads(run.stdout)


def expected_of(server: Server, talon: str, model: str, request: Request, folder: pathlib.Path) -> str:
    with_tools = "tools" in request.body
    run = run_alone(talon, model, request.command(folder, server.prompt(request) if with_tools else ""))
    choices = ask(server, request, {"drafter": "none"}, "whole") if request.says_more() else [answers.Choice()]
    if with_tools:
        choices[0].tokens = run["tokens"]  # whose text the server tells as calls
    else:
        choices[0].text = run["text"]
    return answers.to_text(choices)


def expect(server: Server, talon: str, model: str, crowd: list[Request], folder: pathlib.Path) -> list[str]:
    """What each request gets alone; kept in FOLDER by what was asked of which program."""
    program = hashlib.sha256(pathlib.Path(talon).read_bytes()).hexdigest()
    kept = folder / "expected.json"
    known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    keys = [hashlib.sha256(f"{program} {model} {one.path} {json.dumps(one.body)}".encode()).hexdigest() for one in crowd]
    for key, request in zip(keys, crowd):
        if key not in known:
            known[key] = expected_of(server, talon, model, request, folder)
            kept.write_text(json.dumps(known))
    return [known[key] for key in keys]


def level(talon: str, model: str, crowd: list[Request], expected: list[str], concurrency: int, cache_mb: int) -> bool:
    asked = [place for place, one in enumerate(crowd) if not (cache_mb and one.fills_context)]
    found: dict[int, str] = {}
    with Server(talon, model, cache_mb) as server:
        places = itertools.count()
        begin = time.monotonic()

        def client() -> None:
            while (turn := next(places)) < len(asked):
                place = asked[turn]
                try:
                    found[place] = answers.to_text(ask(server, crowd[place], crowd[place].talon, crowd[place].way))
                except Exception as error:  # told as what it found
                    found[place] = repr(error)

        clients = [threading.Thread(target=client) for _ in range(concurrency)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        seconds = time.monotonic() - begin
        set_back = server.metric("num_preemptions_total")
    wrong = [place for place in asked if found[place] != expected[place]]
    print(json.dumps({"concurrency": concurrency, "cache_mb": cache_mb, "requests": len(asked), "equal": len(asked) - len(wrong),
                      "set_back": int(set_back), "seconds": round(seconds, 1)}), flush=True)
    for place in wrong[:5]:
        one = crowd[place]
        print(f"crowd: request {one.number} {one.path} {one.talon} {one.way} {json.dumps(one.body)[-300:]}\n"
              f"  expected {expected[place][:300]}\n  found    {found[place][:300]}", file=sys.stderr)
    return not wrong


def say_readiness(talon: str, model: str) -> None:
    """Seconds from the start of the process to the first 200 of /ready. Told, and no part of the verdict: the machine may be busy."""
    seconds = []
    for _ in range(STARTS):
        with Server(talon, model) as server:
            seconds.append(round(server.ready_s, 3))
    print(json.dumps({"ready_s": seconds, "most_s": MOST_READY_S, "verdict": "OK" if max(seconds) < MOST_READY_S else "MISS"}), flush=True)


def make_crowd(server: Server, count: int) -> list[Request]:
    docs = pathlib.Path(__file__).parents[2] / "docs"
    filler = (docs / "design.md").read_text()
    context = json.loads(server.get("/props"))["default_generation_settings"]["n_ctx"]
    tokens: list[int] = []
    for name in ("methods.md", "design.md", "formats.md", "images.md"):
        tokens += server.post("/tokenize", {"content": (docs / name).read_text(), "add_special": False})["tokens"]
    if len(tokens) < context:
        raise SystemExit(f"crowd: expected {context} tokens for prompts as long as the context, found {len(tokens)}")
    return spread(long_requests(context, tokens), requests(count, filler))


def main(talon: str, model: str, folder: str, count: str = "200") -> int:
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    say_readiness(talon, model)
    with Server(talon, model) as server:
        crowd = make_crowd(server, int(count))
        expected = expect(server, talon, model, crowd, place)
    return not all([level(talon, model, crowd, expected, *one) for one in LEVELS])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
