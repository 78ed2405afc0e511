"""Starts `talon serve` and runs commands against it, one after the other. The environment tells them the server: TALON_ADDRESS (with the
key `key` and a model named `model`), and TALON and MODEL, the program and the model that it serves; IMAGES, the name of one that draws.

usage: run.py TALON MODEL ICONS COMMAND...     ICONS: a folder of scripts/tiny_icons.sh; each command a line for the shell
"""
import os
import re
import subprocess
import sys


def start(talon: str, model: str, icons: str) -> tuple[subprocess.Popen, str]:
    server = subprocess.Popen([talon, "serve", "-m", f"model={model}", "-m", f"icons={icons}", "--port", "0", "--api-key", "key"],
                              stderr=subprocess.PIPE, text=True)
    said = ""
    for line in server.stderr:
        said += line
        if found := re.search(r"listening on (\S+)", line):
            return server, found.group(1)
    raise SystemExit(f"clients: the server did not start\n{said}")


def main(talon: str, model: str, icons: str, *commands: str) -> int:
    server, address = start(talon, model, icons)
    environment = {**os.environ, "TALON_ADDRESS": address, "TALON": talon, "MODEL": model, "IMAGES": "icons"}
    failed = []
    try:
        for command in commands:
            print(f"clients: {command}", flush=True)
            if subprocess.run(command, shell=True, env=environment).returncode:
                failed.append(command)
    finally:
        server.terminate()
        end = server.wait(60)
    if end:
        failed.append(f"the server, which ended with {end}")
    for one in failed:
        print(f"clients: failed: {one}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
