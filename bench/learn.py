"""How much a head learns from one user's kind of text: `talon serve --learn` answers questions of that kind, learns from them in idle
time, and tokens per check of the head before and after are measured on others of the kind and on ordinary questions.

usage: learn.py TALON MODEL PROMPTS QUESTIONS FOLDER

PROMPTS: JSON lines with "prompt" (.zst as well), such as those that heads are trained on; QUESTIONS: Spec-Bench's. What is done is
kept in FOLDER and not done again. Environment: ANSWERS (2000), TOKENS (96) of each, HELD_OUT (60) questions, ORDINARY (120000) tokens
of ordinary answers, SHARE (0.5) of the machine, PREFIX ("Responde en español. ") put before each prompt, LIMIT (40) questions of
each sort that are measured on. Prints one JSON object.
"""
from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request

PREFIX = os.environ.get("PREFIX", "Responde en español. ")
ANSWERS, TOKENS, HELD_OUT, ORDINARY, LIMIT = (
    int(os.environ.get(name, usual)) for name, usual in [("ANSWERS", 2000), ("TOKENS", 96), ("HELD_OUT", 60), ("ORDINARY", 120000), ("LIMIT", 40)])
SHARE = os.environ.get("SHARE", "0.5")
CLIENTS = 16
PATIENCE = 900  # seconds; a head that cannot be moved is tried again after 600
LONGEST_PROMPT = 500  # letters
CODE = re.compile(r"\b(code|function|Python|JavaScript|Java|C\+\+|SQL|HTML|CSS|program|script|regex|Ruby|PHP)\b")
SOURCES = ("GPTeacher", "oasst")  # of prompts that people might ask
TREES = {"chain4": "topk=1,levels=4,nodes=4", "tree16": "topk=8,levels=6,nodes=15"}


def read_lines(path: pathlib.Path) -> list[dict]:
    raw = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout if path.suffix == ".zst" else path.read_bytes()
    return [json.loads(line) for line in raw.split(b"\n") if line]


def one_kind(prompts: list[dict]) -> list[str]:
    """Questions of people, all asked in one manner, in a fixed order."""
    texts = [p["prompt"] for p in prompts
             if any(s in p["source"] for s in SOURCES) and not CODE.search(p["prompt"]) and len(p["prompt"]) < LONGEST_PROMPT]
    random.Random(3).shuffle(texts)
    return [PREFIX + text for text in texts]


class Server:
    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            print(line, end="", file=sys.stderr)
            if found := re.search(r"listening on (http://\S+)", line):
                self.address = found.group(1)
                threading.Thread(target=self.copy_log, daemon=True).start()
                return
        sys.exit("the server did not start")

    def copy_log(self) -> None:
        for line in self.process.stderr:
            print(line, end="", file=sys.stderr, flush=True)

    def learning(self) -> dict:
        with urllib.request.urlopen(self.address + "/v1/load", timeout=60) as reply:
            return json.load(reply)["models"][0]["learning"]

    def ask(self, text: str) -> int:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": TOKENS, "temperature": 0}
        request = urllib.request.Request(self.address + "/v1/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=3600) as reply:
            return json.load(reply)["usage"]["completion_tokens"]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def await_round(server: Server) -> dict:
    """What the server says when it has learned, or has long done nothing to."""
    busy = time.time()
    while (said := server.learning())["rounds"] == 0:
        if said["phase"] != "gathering":
            busy = time.time()
        if time.time() - busy > PATIENCE:
            return {"problem": f"no round of training in {PATIENCE} s", **said}
        time.sleep(5)
    return said


def learn(talon: str, model: str, texts: list[str], folder: pathlib.Path) -> dict:
    """Asks everything, then leaves the server alone until it has learned."""
    server = Server([talon, "serve", "-m", model, "--models", "downloads", "--port", "0", "--learn", str(folder / "learn"), "--learn-keep",
                     str(folder / "ordinary"), "--learn-share", SHARE, "--learn-tokens", str(ANSWERS * TOKENS // 2)])
    try:
        start = time.time()
        if server.learning()["rounds"] == 0 and not (folder / "learn" / "run").exists():
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                tokens = sum(clients.map(server.ask, texts))
            print(f"{len(texts)} answers of {tokens} tokens in {time.time() - start:.0f} s", file=sys.stderr)
        said = await_round(server)
        return {"seconds": round(time.time() - start), **{key: said[key] for key in ("texts", "swaps")}, "round": said.get("last_round"),
                "problem": said.get("problem")}
    finally:
        server.end()


def tau(talon: str, model: str, questions: pathlib.Path, heads: dict[str, pathlib.Path]) -> dict:
    methods = {f"eagle3:{tree},head={head}": (name, label) for name, head in heads.items() for label, tree in TREES.items()}
    command = [talon, "bench", "spec", "-m", model, "--models", "downloads", "--questions", str(questions), "--limit", str(LIMIT), "-n",
               str(TOKENS), "--policy", "fixed", "--methods", ",".join(["none", *methods])]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    summary = json.loads(lines[-1])["summary"]
    result: dict = {}
    for method, (name, label) in methods.items():
        assert summary[method]["equal"] in (True, 1, 1.0), f"{method}: a text differs"
        result.setdefault(label, {})[name] = round(summary[method]["tau"], 3)
    for taus in result.values():
        taus["change"] = round(taus["after"] / taus["before"] - 1, 4)
    return result


def main() -> None:
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    talon, model, prompts, questions, folder = sys.argv[1:3] + [pathlib.Path(arg) for arg in sys.argv[3:6]]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "ordinary" / "done").exists():
        subprocess.run([talon, "train", "data", "-m", model, "--models", "downloads", "--prompts", str(prompts), "--held-out", str(questions),
                        "-o", str(folder / "ordinary"), "--tokens", str(ORDINARY), "--features", "q8", "--temperature-mix", "0:0.5,0.6-1:0.5"],
                       check=True)
        (folder / "ordinary" / "done").touch()
    texts = one_kind(read_lines(prompts))
    asked = folder / "questions.jsonl"
    asked.write_text("".join(json.dumps({"question_id": i, "category": "one kind", "turns": [text]}) + "\n" for i, text in enumerate(texts[:HELD_OUT])))
    learned = learn(talon, model, texts[HELD_OUT:HELD_OUT + ANSWERS], folder)
    result = {"prefix": PREFIX, "answers": ANSWERS, "tokens": TOKENS, "learned": learned}
    head = max((folder / "learn" / "heads").glob("*"), default=None)
    if head:
        heads = {"before": pathlib.Path("models") / f"{model}-eagle3", "after": head}
        result["tau"] = {"one kind": tau(talon, model, asked, heads), "ordinary": tau(talon, model, questions, heads)}
    print(json.dumps(result))
    if not head:
        sys.exit(f"learn: no head was learned: {learned['problem'] or 'the new one was not better'}")


if __name__ == "__main__":
    main()
