"""Runs packaging/haproxy and packaging/prometheus as they stand, with two servers: one is ended in the middle of the traffic.

usage: run.py TALON MODEL FOLDER
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
REQUESTS = 120
LONG = 200_000  # bytes of every third request, as of a long conversation


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_talon(talon: str, model: str) -> tuple[subprocess.Popen, str]:
    server = subprocess.Popen([talon, "serve", "-m", f"model={model}", "--port", "0", "--threads", "1"], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"listening on http://(\S+)", line):
            return server, found.group(1)
    raise SystemExit("deploy: the server did not start")


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def until(condition, what: str):
    for _ in range(300):
        if found := condition():
            return found
        time.sleep(0.1)
    raise SystemExit(f"deploy: waited in vain for {what}")


def ask(proxy: str, seed: int) -> tuple[int, str]:
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0.8, "seed": seed % 10,
                       "talon": {"drafter": "suffix", "policy": "fixed"}}).encode()
    if seed % 3 == 0:
        body += b" " * LONG
    request = urllib.request.Request(proxy + "/v1/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)["choices"][0]["text"]
    except urllib.error.HTTPError as error:
        return error.code, ""


def query(prometheus: str, expression: str) -> list:
    status, text = get(f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    return json.loads(text)["data"]["result"] if status == 200 else []


def run_traffic(proxy: str, first: subprocess.Popen) -> dict:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, proxy, seed) for seed in range(REQUESTS)]
        until(lambda: sum(answer.done() for answer in answers) > REQUESTS // 4, "a quarter of the answers")
        first.send_signal(signal.SIGTERM)
        results = [answer.result() for answer in answers]
    texts = {}
    for seed, (_, text) in enumerate(results):
        texts.setdefault(seed % 10, set()).add(text)
    return {"requests": len(results), "not_200": sum(status != 200 for status, _ in results),
            "seeds_with_several_texts": sum(len(found) > 1 for found in texts.values())}


def check_rules() -> None:
    done = subprocess.run(["promtool", "test", "rules", ROOT / "tests/deploy/rules_test.yml"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"deploy: {done.stdout}{done.stderr}")


def main(talon: str, model: str, folder: str) -> int:
    check_rules()
    place = pathlib.Path(folder).absolute()
    shutil.rmtree(place / "data", ignore_errors=True)  # Prometheus would still show the servers of a run before
    place.mkdir(parents=True, exist_ok=True)
    talons = [start_talon(talon, model) for _ in range(2)]
    proxy, prometheus = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    processes = [server for server, _ in talons]
    try:
        environment = {**os.environ, "LISTEN": proxy.removeprefix("http://"), "TALON_1": talons[0][1], "TALON_2": talons[1][1]}
        configuration = ROOT / "packaging/haproxy/haproxy.cfg"
        processes.append(subprocess.Popen(["haproxy", "-db", "-f", configuration], env=environment, stderr=subprocess.DEVNULL))
        settings = (ROOT / "packaging/prometheus/prometheus.yml").read_text()
        settings = settings.replace("127.0.0.1:8080", talons[0][1]).replace("127.0.0.1:8081", talons[1][1])
        settings = settings.replace("5s", "1s")
        (place / "prometheus.yml").write_text(settings)
        (place / "talon.rules.yml").write_text((ROOT / "packaging/prometheus/talon.rules.yml").read_text())
        processes.append(subprocess.Popen(
            ["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
             f"--web.listen-address={prometheus.removeprefix('http://')}"], stderr=subprocess.DEVNULL))
        until(lambda: get(proxy + "/v1/models")[0] == 200, "the proxy")
        hidden = sorted({get(proxy + path)[0] for path in ("/metrics", "/%6detrics", "/%70rops", "/v1%2Fload")})
        until(lambda: len(query(prometheus, 'up{job="talon"} == 1')) == 2, "both servers in Prometheus")
        found = run_traffic(proxy, talons[0][0])
        answered = until(lambda: [float(one["value"][1]) for one in query(prometheus, 'sum(talon:request_success_total)')
                                  if float(one["value"][1]) > 0], "answers in Prometheus")
        drafted = until(lambda: ask(proxy, 1) and query(prometheus, "talon:tokens_per_check:rate5m"), "a recorded rule")
        ended = f'up{{instance="{talons[0][1]}"}} == 0'
        down = until(lambda: query(prometheus, ended), "the end of a server in Prometheus")
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(60) for process in processes]
    found |= {"metrics_through_proxy": hidden, "answers_seen_by_prometheus": answered[0], "tokens_per_check": float(drafted[0]["value"][1]),
              "down_seen": len(down), "exit_codes": codes[:2]}
    failed = [name for name, wanted in {"not_200": 0, "seeds_with_several_texts": 0, "metrics_through_proxy": [404], "down_seen": 1,
                                        "exit_codes": [0, 0]}.items() if found[name] != wanted]
    print(json.dumps(found | {"failed": failed}))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
