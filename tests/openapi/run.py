"""Requests made of OpenAI's published description (openai.json, and images.json for a model that draws) and of one of the other paths
(own_description.py) against `talon serve`: none may end in a 5xx, every answer must be one that the description allows, and the server's
memory stays flat. Of the other paths, whose description is as strict as the server, what it forbids must be refused. Prints a line of
JSON for each description.

usage: run.py TALON ST EXAMPLES FOLDER [SEED]     ST: the program of schemathesis; EXAMPLES: requests that are drawn for each of OpenAI's
six paths, of the other six a third as many. From a thousand on the 10,000 that go through a description field by field come first.
"""
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass

import own_description

HERE = pathlib.Path(__file__).parent
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
QUARTERS = 4  # the server rests after each of them; from the first on its memory must not grow
MOST_GROWTH = 1.05
REST_SECONDS = 15  # the server gives memory back after 5
MOST_OF_A_RUN = 100  # examples of a path: with more schemathesis gets slow
WITH_FIELDS = 1000  # examples of OpenAI's paths from which on each field is gone through
OWN_SHARE = 3  # of OpenAI's examples the other paths get one in so many


@dataclass
class Description:
    file: pathlib.Path
    models: list[str]  # options that serve what it asks for
    usual: tuple[str, dict]  # a path, and a request that takes much memory
    examples: int
    base: str = "/v1"
    checks: str = CHECKS


def make_chat_model(folder: pathlib.Path) -> list[str]:
    """The options that serve it."""
    model = folder / "tiny-chat.gguf"
    models = HERE.parent / "data/models"
    subprocess.run([sys.executable, HERE / "tiny_chat_model.py", models / "stories260K.bin", models / "tok512.bin", model], check=True)
    return ["-m", f"tiny={model}"]


def make_image_model(folder: pathlib.Path) -> list[str]:
    golden = HERE.parent / "data/golden/images"
    model = folder / "icons"
    model.mkdir(exist_ok=True)
    for name in ["config.json", "words.json"]:
        shutil.copy(golden / "words" / name, model)
    for name in ["model.safetensors", "vq.safetensors"]:
        subprocess.run(["zstd", "-q", "-f", "-d", golden / f"words/{name}.zst", "-o", model / name], check=True)
    return ["-m", f"icons={model}"]


def image_description(folder: pathlib.Path) -> pathlib.Path:
    """The description with prompts that the model knows: few of all texts are."""
    description = json.loads((HERE / "images.json").read_text())
    fields = description["components"]["schemas"]["CreateImageRequest"]["properties"]
    fields["prompt"]["enum"] = ["red cat flat", "moon round", "line"]
    fields["model"] = {"type": "string", "enum": ["icons"]}
    path = folder / "images.json"
    path.write_text(json.dumps(description))
    return path


def own_paths(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "own.json"
    path.write_text(json.dumps(own_description.describe()))
    return path


def start(talon: str, models: list[str]) -> tuple[subprocess.Popen, str]:
    command = [talon, "serve", *models, "--port", "0", "--threads", "1", "--cache-mb", "4"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"listening on (\S+)", line):
            threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
            return server, found.group(1)
    raise SystemExit("openapi: the server did not start")


def memory_of(pid: int) -> int:
    """Bytes of its own. Pages of the program's file, which come with the first use of what lies on them, are not."""
    return 1024 * int(re.search(r"RssAnon:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def responses(address: str) -> dict[str, int]:
    with urllib.request.urlopen(address + "/metrics") as reply:
        found = re.findall(r'talon:http_responses_total\{[^}]*code="(\d+)"[^}]*\} (\d+)', reply.read().decode())
    return {code: int(count) for code, count in found}


def warm(address: str, path: str, fields: dict) -> None:
    """Pages of the cache, room for activations and the methods that requests name take memory when they are first used; here all."""
    methods = [dict(zip(("drafter", "policy", "verify"), names))
               for names in itertools.product(own_description.DRAFTERS, own_description.POLICIES, own_description.RULES)]

    def ask(number: int) -> None:
        body = {name: value.format(number) if isinstance(value, str) else value for name, value in fields.items()} | {"seed": number}
        if path == TEXTS[0]:
            body["talon"] = methods[number % len(methods)]
        request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            reply.read()

    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        list(clients.map(ask, range(64)))


def memory_at_rest(pid: int) -> int:
    """What it keeps when nobody has asked for a while. Under requests pages that are not yet given back count, too."""
    time.sleep(REST_SECONDS)
    return memory_of(pid)


TEXTS = ("/v1/completions", {"prompt": "{} " + "once upon a time " * 40, "max_tokens": 200, "logprobs": 5, "n": 2})
PICTURES = ("/v1/images/generations", {"prompt": "red cat flat", "n": 2, "stream": True, "partial_images": 3})


def draw(st: str, seed: int, place: pathlib.Path, description: Description, address: str, examples: int, with_fields: bool) -> list[str]:
    """Asks the server, from one thread for each processor, in runs of other seeds. Says which failed."""
    threads = os.cpu_count() or 1
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
    failed = []

    def run(phases: str, count: int, run_seed: int) -> None:
        command = [st, "--config-file", str(HERE / "schemathesis.toml"), "run", str(description.file),
                   "--url", address + description.base, "--checks", description.checks, "--phases", phases,
                   "--max-examples", str(count), "--seed", str(run_seed), "--workers", "1", "--continue-on-failure",
                   "--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off", "--no-color"]
        log_file = place / f"schemathesis.{description.file.stem}.{run_seed}.{phases}.log"
        with open(log_file, "w") as log:
            result = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, cwd=place, env=environment)
        if result.returncode != 0:
            failed.append(f"schemathesis exits with {result.returncode}: {log_file}")
        else:
            log_file.unlink()

    def work(number: int) -> None:
        if number == 0 and with_fields:
            run("coverage", 1, seed)
        share = (examples + number) // threads
        for turn, done in enumerate(range(0, share, MOST_OF_A_RUN)):
            run("fuzzing", min(MOST_OF_A_RUN, share - done), seed * 1_000_000 + turn * threads + number)

    with concurrent.futures.ThreadPoolExecutor(threads) as workers:
        list(workers.map(work, range(threads)))
    return failed


def say_progress(address: str, begin: float, done: threading.Event) -> None:
    while not done.wait(60):
        print(f"openapi: {sum(responses(address).values())} requests in {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def check(talon: str, st: str, place: pathlib.Path, seed: str, description: Description, with_fields: bool) -> bool:
    server, address = start(talon, description.models)
    warm(address, *description.usual)
    busy = memory_of(server.pid)
    returned = busy - memory_at_rest(server.pid)
    begin = time.monotonic()
    done = threading.Event()
    progress = threading.Thread(target=say_progress, args=(address, begin, done))
    progress.start()
    failed = []
    sizes = []
    try:
        for quarter in range(QUARTERS):
            share = (description.examples + quarter) // QUARTERS
            failed += draw(st, int(seed) * QUARTERS + quarter, place, description, address, share, with_fields and quarter == 0)
            sizes.append(memory_at_rest(server.pid))
        codes = responses(address)
    finally:
        done.set()
        progress.join()
        server.terminate()
        code = server.wait(60)
    growth = sizes[-1] / sizes[0]
    failed += [text for text, is_bad in [("a 5xx", any(status.startswith("5") for status in codes)),
                                         ("no memory was given back", returned <= 0),
                                         (f"memory grew by {growth:.3f}", growth > MOST_GROWTH),
                                         (f"the server exits with {code}", code != 0)] if is_bad]
    print(json.dumps({"description": description.file.name, "requests": sum(codes.values()), "codes": codes,
                      "seconds": round(time.monotonic() - begin), "given_back_mib": round(returned / 2**20, 1),
                      "memory_mib": [round(size / 2**20, 1) for size in sizes], "growth": round(growth, 4), "failed": failed}), flush=True)
    return not failed


def main(talon: str, st: str, examples: str, folder: str, seed: str = "1") -> int:
    place = pathlib.Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    count = int(examples)
    chat_model = make_chat_model(place)
    descriptions = [
        Description(HERE / "openai.json", chat_model, TEXTS, count),
        Description(own_paths(place), chat_model, TEXTS, max(1, count // OWN_SHARE), "", CHECKS + ",negative_data_rejection"),
        Description(image_description(place), make_image_model(place), PICTURES, count)]
    return int(not all([check(talon, st, place, seed, one, count >= WITH_FIELDS) for one in descriptions]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
