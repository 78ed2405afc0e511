"""Mixed traffic with faults against `talon serve` for a while: killed clients, malformed and hostile requests, slow-loris, a full
disk, a full cache, SIGTERM in the middle of streams, a model file that vanishes. Prints a line of JSON every few seconds and a verdict.

usage: run.py TALON MODEL MINUTES FOLDER [SEED]
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

import traffic
from traffic import Question, Site, Wrong

CLIENTS = 6
SAMPLE_S = 10
FAULT_S = 45  # from one fault to the next
STOPPED_S = 6  # more than an ending server gives answers in all
SETTLED_S = 600  # from when on memory must stay; shorter runs take a third of their time
MOST_GROWTH = 1.02
LEAST_ACCEPTANCE = 0.95  # of the last third, of the first third's


def start(talon: str, model: pathlib.Path, *more: str, stderr=subprocess.PIPE, **environment: str) -> tuple[subprocess.Popen, tuple[str, int]]:
    command = [talon, "serve", "-m", f"model={model}", "--port", "0", "--cache-mb", "1", "--header-s", "3", "--body-s", "5", "--queue", "24", *more]
    server = subprocess.Popen(command, stderr=stderr, text=True, env={**os.environ, **environment})
    if stderr != subprocess.PIPE:
        return server, ("", 0)
    for line in server.stderr:
        if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
            threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
            return server, (found.group(1), int(found.group(2)))
    raise SystemExit("endurance: the server did not start")


def metrics(site: Site) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{site.address[0]}:{site.address[1]}/metrics", timeout=30) as reply:
        found: dict[str, float] = {}
        for name, labels, value in re.findall(r"^talon:(\w+)(\{[^}]*\})? (\S+)$", reply.read().decode(), re.M):
            code = re.search(r'code="(\d+)"', labels)
            key = f"{name}.{code.group(1)}" if code else name
            found[key] = found.get(key, 0) + float(value)
    return found


def resident(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Faults:
    """What happens to the machine and to servers beside the one that is watched."""

    def __init__(self, talon: str, model: pathlib.Path, folder: pathlib.Path, site: Site) -> None:
        self.talon, self.model, self.folder, self.site = talon, model, folder, site
        self.stops = False  # every other ending server, the first among them

    def model_vanishes(self) -> None:
        """The one that runs goes on; a new one says what is missing."""
        away = self.model.with_suffix(".away")
        self.model.rename(away)
        try:
            found = subprocess.run([self.talon, "serve", "-m", f"model={self.model}", "--port", "0"], capture_output=True, text=True, timeout=60)
            if found.returncode != 1 or str(self.model) not in found.stderr:
                raise Wrong(f"without its model a server ends with {found.returncode}: {found.stderr[-200:]}")
            for question in random.Random(1).sample(list(self.site.texts), 3):
                traffic.take_whole(self.site, random.Random(1), question)
        finally:
            away.rename(self.model)

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
            server, address = start(self.talon, self.model, XDG_CACHE_HOME=str(full))
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
        server, address = start(self.talon, self.model, "--drain-s", "0.2")
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
        self.model = pathlib.Path(shutil.copy(model, self.folder))
        for beside in pathlib.Path(model).parent.glob("tok*.bin"):
            shutil.copy(beside, self.folder)
        texts = traffic.expected_texts(talon, str(self.model), traffic.questions())
        self.server, address = start(talon, self.model)
        self.site = Site(address, texts)
        self.faults = Faults(talon, self.model, self.folder, self.site)
        self.begin = time.monotonic()
        self.end = self.begin + minutes * 60
        self.seed = seed
        self.wrong: list[str] = []
        self.samples: list[dict] = []

    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def visit(self, client: int) -> None:
        draw = random.Random(self.seed * 1000 + client)
        while time.monotonic() < self.end:
            what = draw.choice(traffic.VISITS)
            try:
                what(self.site, draw, draw.choice(list(self.site.texts)))
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

    def verdict(self, last: dict[str, float]) -> int:
        total = self.seconds()
        settled = min(SETTLED_S, total / 3)
        sizes = [one["resident_kib"] for one in self.samples if one["seconds"] >= settled]

        def acceptance(first: float, end: float) -> float:
            chosen = [one for one in self.samples if first * total <= one["seconds"] <= end * total]
            return sum(one["accepted"] for one in chosen) / max(1, sum(one["drafted"] for one in chosen))

        begin, end = acceptance(0, 1 / 3), acceptance(2 / 3, 1.01)
        server_errors = {key: value for key, value in last.items() if re.fullmatch(r"http_responses_total\.5\d\d", key) and value}
        self.server.terminate()
        code = self.server.wait(60)
        growth = sizes[-1] / sizes[0]
        failed = [text for text, is_bad in [
            (f"{len(self.wrong)} findings", self.wrong), (f"memory grew by {growth:.3f}", growth > MOST_GROWTH),
            (f"acceptance fell from {begin:.3f} to {end:.3f}", end < LEAST_ACCEPTANCE * begin), (f"{server_errors}", server_errors),
            (f"the server ends with {code}", code != 0), ("no text was compared", not self.site.counts.get("equal")),
            ("the cache was never full", not last.get("num_preemptions_total"))] if is_bad]
        print(json.dumps({"verdict": "failed" if failed else "passed", "failed": failed, "seconds": round(total), "visits": self.site.counts,
                          "resident_mib": {"settled": sizes[0] >> 10, "end": sizes[-1] >> 10}, "growth": round(growth, 4),
                          "acceptance": [round(begin, 4), round(end, 4)], "wrong": self.wrong[:20]}))
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
