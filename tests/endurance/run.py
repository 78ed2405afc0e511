"""Mixed traffic with faults against `talon serve` for a while: killed clients, malformed and hostile requests, slow-loris, a full
disk, a full cache, SIGTERM in the middle of streams, a model file that vanishes. Prints a line of JSON every few seconds and a verdict.

usage: run.py TALON MODEL MINUTES FOLDER [SEED]     MODEL: a file, or the name of a pulled model (smollm2). stories260K.bin, which has no
chat template, gets that of tests/openapi/tiny_chat_model.py and the head of tests/data/golden
"""
from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field

import chats
import traffic
from traffic import Question, Site, Wrong

TESTS = pathlib.Path(__file__).parents[1]

CLIENTS = 6
SAMPLE_S = 10
FAULT_S = 45  # from one fault to the next
STOPPED_S = 6  # more than an ending server gives answers in all
SETTLED_S = 600  # from when on memory must stay; shorter runs take a third of their time
MOST_GROWTH = 1.02
LEAST_ACCEPTANCE = 0.95  # of the last third, of the first third's
CACHE_POSITIONS = 1600  # which a large request more than fills
HEADS = ["eagle3", "eagle2", "medusa"]


@dataclass
class Program:
    """`talon serve` of a model that is a copy, so that it can vanish."""

    talon: str
    model: pathlib.Path
    options: list[str] = field(default_factory=list)


def start(program: Program, *more: str, **environment: str) -> tuple[subprocess.Popen, tuple[str, int]]:
    command = [program.talon, "serve", "-m", f"model={program.model}", "--port", "0", "--header-s", "3", "--body-s", "5", "--queue", "24",
               *program.options, *more]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    for line in server.stderr:
        if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
            threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
            return server, (found.group(1), int(found.group(2)))
    raise SystemExit("endurance: the server did not start")


def pulled(name: str) -> pathlib.Path:
    """The file or the folder of a model that `talon pull` fetched."""
    place = pathlib.Path(os.environ.get("TALON_MODELS", "downloads")) / name
    files = list(place.glob("*.gguf"))
    if not place.is_dir():
        raise SystemExit(f"endurance: expected a file or a pulled model, found neither {name} nor {place}: talon pull {name}")
    return files[0] if len(files) == 1 else place


def program_of(talon: str, given: str, folder: pathlib.Path) -> Program:
    model = pathlib.Path(given) if pathlib.Path(given).is_file() else pulled(given)
    tokenizer = model.parent / "tok512.bin"
    if model.name == "stories260K.bin" and tokenizer.exists():
        copy = folder / "tiny-chat.gguf"
        subprocess.run([sys.executable, TESTS / "openapi/tiny_chat_model.py", model, tokenizer, copy], check=True)
        return Program(talon, copy, ["-d", f"eagle3:head={TESTS / 'data/golden/stories260k/eagle3_head'}"])
    if model.is_dir():
        return Program(talon, pathlib.Path(shutil.copytree(model, folder / model.name, dirs_exist_ok=True)))
    for beside in model.parent.glob("tok*.bin"):
        shutil.copy(beside, folder)
    return Program(talon, pathlib.Path(shutil.copy(model, folder)))


def ask(address: tuple[str, int], path: str) -> str:
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=30) as reply:
        return reply.read().decode()


def bound_cache(program: Program) -> None:
    """Room for as many positions of any model."""
    done = subprocess.run([program.talon, "inspect", program.model, "--json"], check=True, capture_output=True, text=True)
    cache = json.loads(done.stdout)["cache"]
    position = cache["cache_bytes"] / cache["cache_positions"]
    program.options += ["--cache-mb", str(max(1, round(CACHE_POSITIONS * position / 2**20)))]


def head_of(drafter: str) -> str:
    """The head among joined drafters; empty: there is none."""
    names = [part.split(":")[0] for part in drafter.split("+")]
    return next((name for name in HEADS if name in names), "")


def metrics(site: Site) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, labels, value in re.findall(r"^talon:(\w+)(\{[^}]*\})? (\S+)$", ask(site.address, "/metrics"), re.M):
        code = re.search(r'code="(\d+)"', labels)
        key = f"{name}.{code.group(1)}" if code else name
        found[key] = found.get(key, 0) + float(value)
    return found


def resident(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Faults:
    """What happens to the machine and to servers beside the one that is watched."""

    def __init__(self, program: Program, folder: pathlib.Path, site: Site) -> None:
        self.program, self.folder, self.site = program, folder, site
        self.stops = False  # every other ending server, the first among them

    def model_vanishes(self) -> None:
        """The one that runs goes on; a new one says what is missing."""
        talon, model = self.program.talon, self.program.model
        away = model.with_suffix(".away")
        model.rename(away)
        try:
            found = subprocess.run([talon, "serve", "-m", f"model={model}", "--port", "0"], capture_output=True, text=True, timeout=60)
            if found.returncode != 1 or str(model) not in found.stderr:
                raise Wrong(f"without its model a server ends with {found.returncode}: {found.stderr[-200:]}")
            for question in random.Random(1).sample(list(self.site.texts), 3):
                traffic.take_whole(self.site, random.Random(1), question)
        finally:
            away.rename(model)

    def disk_is_full(self) -> None:
        """Measured costs cannot be kept, notes cannot be written: it answers all the same."""
        full = self.folder / "full"
        full.mkdir(exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full], capture_output=True).returncode == 0
        try:
            try:
                (full / "filler").write_bytes(bytes(1 << 20))
            except OSError:
                pass  # full, as wanted
            server, address = start(self.program, XDG_CACHE_HOME=str(full))
            other = Site(address, self.site.texts)
            traffic.take_whole(other, random.Random(2), next(iter(self.site.texts)))
            server.terminate()
            if server.wait(60) != 0:
                raise Wrong(f"with a full disk the server ends with {server.returncode}")
        finally:
            if mounted:
                subprocess.run(["umount", full], check=True)

    def ended_in_the_middle(self) -> None:
        """SIGTERM while streams run: each ends whole or is cut with a reason, and what it said is a beginning of its text, even
        if the server is stopped meanwhile for longer than all of that may take."""
        server, address = start(self.program, "--drain-s", "0.2")
        other = Site(address, self.site.texts)
        question = max(self.site.texts, key=lambda one: (one.length, len(self.site.texts[one])))
        problems: list[str] = []
        begun = threading.Barrier(4)

        def stream() -> None:
            response = other.post(json.dumps(question.fields(stream=True)).encode())
            begun.wait(30)
            text, finish = "", None
            for piece, reason in traffic.pieces(response):
                text, finish = text + piece, reason or finish
            if not self.site.texts[question].startswith(text) or finish is None:
                problems.append(f"{text!r} ended by {finish}")

        threads = [threading.Thread(target=stream) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait(30)
        server.send_signal(signal.SIGTERM)
        self.stops = not self.stops
        if self.stops:
            time.sleep(0.03)  # it has begun to end
            server.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            server.send_signal(signal.SIGCONT)
        for thread in threads:
            thread.join(60)
        if server.wait(60) != 0 or problems:
            raise Wrong(f"ended with {server.returncode}, {problems}")

    def all(self) -> list:
        return [self.model_vanishes, self.disk_is_full, self.ended_in_the_middle]


class Run:
    def __init__(self, talon: str, model: str, minutes: float, folder: str, seed: int) -> None:
        self.folder = pathlib.Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        program = program_of(talon, model, self.folder)
        props = self.look_at(program)
        bound_cache(program)

        def texts(*forms: str) -> dict[Question, str]:
            return traffic.expected_texts(talon, str(program.model), traffic.questions(*forms), self.folder)

        chat_texts = texts("chat", "schema") if props["chat_template"] else {}
        plain_texts = texts("")
        self.server, address = start(program)
        self.site = Site(address, plain_texts, chat_texts, head_of(props["talon"]["drafter"]))
        self.visits = traffic.VISITS + chats.VISITS * bool(chat_texts) + [traffic.draft_by_head] * 15 * bool(self.site.head)
        self.faults = Faults(program, self.folder, self.site)
        self.begin = time.monotonic()
        self.end = self.begin + minutes * 60
        self.seed = seed
        self.wrong: list[str] = []
        self.samples: list[dict] = []

    @staticmethod
    def look_at(program: Program) -> dict:
        server, address = start(program)
        props = json.loads(ask(address, "/props"))
        server.terminate()
        server.wait(60)
        return props

    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def visit(self, client: int) -> None:
        draw = random.Random(self.seed * 1000 + client)
        plain, chatted = list(self.site.texts), list(self.site.chats)
        while time.monotonic() < self.end:
            what = draw.choice(self.visits)
            try:
                what(self.site, draw, draw.choice(chatted if what in chats.VISITS else plain))
            except Exception as error:  # each is a finding, whatever its class
                self.wrong.append(f"{what.__name__} at {self.seconds():.0f} s: {type(error).__name__}: {error}"[:500])

    def harm(self) -> None:
        number = 0
        while time.monotonic() < self.end - FAULT_S:
            fault = self.faults.all()[number % 3]
            try:
                fault()
                self.site.count(fault.__name__)
            except Exception as error:
                self.wrong.append(f"{fault.__name__} at {self.seconds():.0f} s: {type(error).__name__}: {error}"[:500])
            number += 1
            time.sleep(FAULT_S)

    def sample(self, before: dict[str, float]) -> dict[str, float]:
        now = metrics(self.site)
        drafted, accepted = (now.get(f"spec_decode_num_{what}_tokens_total", 0) - before.get(f"spec_decode_num_{what}_tokens_total", 0)
                             for what in ("draft", "accepted"))
        line = {"seconds": round(self.seconds()), "resident_kib": resident(self.server.pid) >> 10, "drafted": drafted, "accepted": accepted,
                "running": now.get("num_requests_running"), "waiting": now.get("num_requests_waiting"),
                "cache": round(now.get("kv_cache_usage_perc", 0), 3), "preemptions": now.get("num_preemptions_total"),
                "answers": now.get("request_success_total"), "faults": now.get("engine_faults_total"), "wrong": len(self.wrong)}
        self.samples.append(line)
        print(json.dumps(line), flush=True)
        return now

    def head_acceptance(self) -> list[float]:
        """Accepted tokens a check of the head's drafts in the first third and in the last, of questions that were asked in both."""
        thirds: tuple[dict, dict] = ({}, {})
        for when, question, checks, accepted in self.site.drafts:
            place = 3 * (when - self.begin) / (self.end - self.begin)
            if checks and not 1 <= place < 2:
                thirds[place >= 2].setdefault(question, []).append(accepted / checks)
        common = thirds[0].keys() & thirds[1].keys()
        return [sum(sum(third[one]) / len(third[one]) for one in common) / max(1, len(common)) for third in thirds]

    def verdict(self, last: dict[str, float]) -> int:
        total = self.seconds()
        settled = min(SETTLED_S, total / 3)
        sizes = [one["resident_kib"] for one in self.samples if one["seconds"] >= settled]

        def acceptance(first: float, end: float) -> float:
            chosen = [one for one in self.samples if first * total <= one["seconds"] <= end * total]
            return sum(one["accepted"] for one in chosen) / max(1, sum(one["drafted"] for one in chosen))

        begin, end = acceptance(0, 1 / 3), acceptance(2 / 3, 1.01)
        head_begin, head_end = self.head_acceptance()
        unasked = [kind for kind in ["equal"] + ["equal chat", "equal schema", "equal call"] * bool(self.site.chats)
                   if not self.site.counts.get(kind)]
        server_errors = {key: value for key, value in last.items() if re.fullmatch(r"http_responses_total\.5\d\d", key) and value}
        self.server.terminate()
        code = self.server.wait(60)
        growth = sizes[-1] / sizes[0]
        failed = [text for text, is_bad in [
            (f"{len(self.wrong)} findings", self.wrong), (f"memory grew by {growth:.3f}", growth > MOST_GROWTH),
            (f"acceptance fell from {begin:.3f} to {end:.3f}", end < LEAST_ACCEPTANCE * begin),
            (f"that of {self.site.head} fell from {head_begin:.3f} to {head_end:.3f}", head_end < LEAST_ACCEPTANCE * head_begin),
            (f"{self.site.head} had no draft accepted", self.site.head and not any(one[3] for one in self.site.drafts)),
            (f"{server_errors}", server_errors),
            (f"the server ends with {code}", code != 0), (f"nothing was compared of: {unasked}", unasked),
            ("the cache was never full", not last.get("num_preemptions_total"))] if is_bad]
        print(json.dumps({"verdict": "failed" if failed else "passed", "failed": failed, "seconds": round(total), "visits": self.site.counts,
                          "resident_mib": {"settled": sizes[0] >> 10, "end": sizes[-1] >> 10}, "growth": round(growth, 4),
                          "acceptance": [round(begin, 4), round(end, 4)],
                          "head": {"drafter": self.site.head or None, "accepted_a_check": [round(head_begin, 4), round(head_end, 4)]},
                          "wrong": self.wrong[:20]}))
        return int(bool(failed))

    def run(self) -> int:
        threads = [threading.Thread(target=self.visit, args=(client,), daemon=True) for client in range(CLIENTS)]
        threads.append(threading.Thread(target=self.harm, daemon=True))
        for thread in threads:
            thread.start()
        last = metrics(self.site)
        while time.monotonic() < self.end:
            time.sleep(max(0.1, min(SAMPLE_S, self.end - time.monotonic())))
            last = self.sample(last)
        for thread in threads:
            thread.join(120)
        return self.verdict(self.sample(last) if self.server.poll() is None else last)


if __name__ == "__main__":
    sys.exit(Run(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], int((sys.argv[5:] or ["1"])[0])).run())
