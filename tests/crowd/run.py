"""Exact in a crowd: mixed requests to `talon serve` at several concurrencies and with a cache that is too small for them, among clients
that leave and clients that read slowly. Every text is that of `talon run -d none`; with tools, that of the server without drafts and
with nothing beside it. Prints a line of JSON for each level and exits with 1 if any text differs.

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

from asked import Request, requests

LEVELS = [(1, 0), (4, 0), (16, 0), (16, 48)]  # requests at once, cache in MiB (0: one whole context)


class Server:
    def __init__(self, talon: str, model: str, cache_mb: int) -> None:
        self.process = subprocess.Popen([talon, "serve", "-m", f"model={model}", "--port", "0", "--cache-mb", str(cache_mb)],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
                self.address = (found.group(1), int(found.group(2)))
                threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
                return
        raise SystemExit("crowd: the server did not start")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        if end := self.process.wait(120):
            raise SystemExit(f"crowd: the server ended with {end}")

    def open(self, body: dict, receive_bytes: int = 0) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(*self.address, timeout=600)
        connection.sock = socket.socket()
        if receive_bytes:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.sock.connect(self.address)
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        return connection.getresponse()

    def metric(self, name: str) -> float:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        return sum(map(float, re.findall(rf"^talon:{name}(?:{{[^}}]*}})? (\S+)$", connection.getresponse().read().decode(), re.M)))


def said(choice: dict) -> str:
    """Text and calls of a whole choice, or of what the parts of a stream make."""
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return json.dumps([message.get("content") or "", calls])


def joined(lines) -> str:
    message = {"content": "", "tool_calls": []}
    for line in lines:
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"function": {"name": "", "arguments": ""}})
                for part in ("name", "arguments"):
                    message["tool_calls"][call["index"]]["function"][part] += call["function"].get(part) or ""
    return said({"message": message})


def slowly(response: http.client.HTTPResponse):
    for line in response:
        time.sleep(0.01)
        yield line


def ask(server: Server, request: Request, talon: dict, way: str) -> str:
    body = {**request.body, "model": "model", "talon": talon}
    if way == "leaves":
        gone = server.open({**body, "stream": True})
        gone.readline()
        gone.close()
    streams = way in ("stream", "slow")
    response = server.open({**body, "stream": streams}, 4096 if way == "slow" else 0)
    if response.status != 200:
        return f"{response.status}: {response.read()[:300]}"
    if not streams:
        return said(json.loads(response.read())["choices"][0])
    return joined(slowly(response) if way == "slow" else response)


def expect(talon: str, model: str, crowd: list[Request], folder: pathlib.Path) -> list[str]:
    """What each request gets alone; kept in FOLDER by what was asked of which program."""
    program = hashlib.sha256(pathlib.Path(talon).read_bytes()).hexdigest()
    kept = folder / "expected.json"
    known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    keys = [hashlib.sha256(f"{program} {model} {json.dumps(one.body)}".encode()).hexdigest() for one in crowd]
    with Server(talon, model, 0) as server:
        for key, request in zip(keys, crowd):
            if key in known:
                continue
            if (options := request.command(folder)) is None:
                known[key] = ask(server, request, {"drafter": "none"}, "whole")
            else:
                run = subprocess.run([talon, "run", "-m", model, "--json", *options], capture_output=True, text=True)
                if run.returncode:
                    raise SystemExit(f"crowd: talon run {options}: {run.stderr}")
                known[key] = json.dumps([json.loads(run.stdout)["text"], []])
            kept.write_text(json.dumps(known))
    return [known[key] for key in keys]


def level(talon: str, model: str, crowd: list[Request], expected: list[str], concurrency: int, cache_mb: int) -> bool:
    found = [""] * len(crowd)
    with Server(talon, model, cache_mb) as server:
        places = itertools.count()
        begin = time.monotonic()

        def client() -> None:
            while (place := next(places)) < len(crowd):
                try:
                    found[place] = ask(server, crowd[place], crowd[place].talon, crowd[place].way)
                except Exception as error:  # told as what it found
                    found[place] = repr(error)

        clients = [threading.Thread(target=client) for _ in range(concurrency)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        seconds = time.monotonic() - begin
        set_back = server.metric("num_preemptions_total")
    wrong = [place for place in range(len(crowd)) if found[place] != expected[place]]
    print(json.dumps({"concurrency": concurrency, "cache_mb": cache_mb, "requests": len(crowd), "equal": len(crowd) - len(wrong),
                      "set_back": int(set_back), "seconds": round(seconds, 1)}), flush=True)
    for place in wrong[:5]:
        print(f"crowd: request {place} {crowd[place].talon} {crowd[place].way} {json.dumps(crowd[place].body)[-300:]}\n"
              f"  expected {expected[place][:300]}\n  found    {found[place][:300]}", file=sys.stderr)
    return not wrong


def main(talon: str, model: str, folder: str, count: str = "200") -> int:
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(__file__).parents[2]
    crowd = requests(int(count), (root / "docs/design.md").read_text())
    expected = expect(talon, model, crowd, place)
    return not all([level(talon, model, crowd, expected, *one) for one in LEVELS])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
