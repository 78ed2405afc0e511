"""Does what packaging/docker/Dockerfile says without a container engine: each stage in a root of debootstrap's, then the server in
the last one, under its user, until its own health check finds it well. For root.

usage: image_steps.py MODELS FOLDER     MODELS: what `talon pull` fetched, with smollm2
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
DOCKERFILE = ROOT / "packaging/docker/Dockerfile"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def run(*command, **more):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, **more)


def mounts_below(folder: pathlib.Path) -> list[str]:
    """What is mounted there, in the order in which it was."""
    words = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    places = [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), word) for word in words]
    return [place for place in places if folder.resolve() in pathlib.Path(place).parents]


def unmount_below(folder: pathlib.Path) -> None:
    for place in reversed(mounts_below(folder)):
        # One that something still uses goes from the tree at once, and for good when it is used no more.
        if subprocess.run(["umount", place], stderr=subprocess.DEVNULL).returncode != 0:
            subprocess.run(["umount", "-l", place])


def steps() -> list[tuple[str, str]]:
    lines = DOCKERFILE.read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


class Stage:
    def __init__(self, root: pathlib.Path, release: str):
        self.root, self.cwd, self.user = root, "/", "0:0"
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        run("debootstrap", "--variant=minbase", release, root)
        run("mount", "--bind", "/proc", root / "proc")
        run("mount", "--bind", "/dev", root / "dev")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        # debootstrap writes the first of these alone, Debian's images have them all.
        site = (root / "etc/apt/sources.list").read_text().split()[1].rstrip("/")
        lines = [f"deb {site} {release} main", f"deb {site} {release}-updates main", f"deb {site}-security {release}-security main"]
        (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
        # A network that looks into what is fetched is trusted as it is outside.
        certificates = pathlib.Path(CERTIFICATES)
        if certificates.exists():
            (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
            shutil.copy(certificates, root / "usr/local/certificates.crt")
            self.environment |= {"SSL_CERT_FILE": "/usr/local/certificates.crt", "CARGO_HTTP_CAINFO": "/usr/local/certificates.crt"}

    def inside(self, *command: str) -> list[str]:
        place = f"cd {shlex.quote(self.cwd)} && exec \"$@\""
        return ["chroot", f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i",
                *(f"{name}={value}" for name, value in self.environment.items()), "/bin/sh", "-c", place, "sh", *command]

    def path(self, name: str) -> pathlib.Path:
        return self.root / name.lstrip("/")


def copy(stage: Stage, stages: dict[str, Stage], words: list[str]) -> None:
    if words[0].startswith("--from="):
        source, target = stages[words[0][7:]].path(words[1]), stage.path(words[2])
        target.parent.mkdir(parents=True, exist_ok=True)
        run("cp", "-a", source, target)
        return
    files = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True).stdout
    archive = stage.root.with_suffix(".tar")
    run("tar", "-C", ROOT, "--null", "-T", "-", "-cf", archive, input=files)
    run("tar", "-C", stage.path(stage.cwd), "--no-same-owner", "-xf", archive)
    archive.unlink()


def build(folder: pathlib.Path, stages: dict[str, Stage]) -> tuple[Stage, list[str], list[str], int]:
    """The last stage, what it starts, how it is asked whether it is well, and for how many seconds it need not be."""
    entry: list[str] = []
    command: list[str] = []
    health: list[str] = []
    patience = 0
    for word, rest in steps():
        print(f"image: {word} {rest[:100]}", file=sys.stderr, flush=True)
        if word == "FROM":
            image, *name = rest.split(" AS ")
            stage = Stage(folder / f"stage{len(stages)}", image.removeprefix("debian:").removesuffix("-slim"))
            stages[name[0] if name else "last"] = stage
        elif word == "WORKDIR":
            stage.cwd = rest
            stage.path(rest).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            copy(stage, stages, rest.split())
        elif word == "RUN":
            run(*stage.inside("/bin/sh", "-c", rest))
            # Here others are given from outside, which a container does not have: cargo fetches with those.
            if "setup.sh" in rest and not stage.path(CERTIFICATES).exists():
                raise SystemExit(f"image: expected {CERTIFICATES} after {rest}, found none")
        elif word == "ENV":
            stage.environment |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "USER":
            stage.user = rest
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        elif word == "CMD":
            command = json.loads(rest)
        elif word == "HEALTHCHECK":
            health = json.loads(rest.split("CMD ", 1)[1])
            patience = int((re.search(r"--start-period=(\d+)s ", rest) or [0, 0])[1])
        elif word not in ("EXPOSE", "STOPSIGNAL"):
            raise SystemExit(f"image: expected a step that is known, found {word}")
    return stage, entry + command, health, patience


def main(models: str, folder: pathlib.Path) -> None:
    if mounted := mounts_below(folder):  # of a run that was killed: their files are another's
        raise SystemExit(f"image: expected nothing mounted below {folder}, found {', '.join(mounted)}: umount them first")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stages: dict[str, Stage] = {}
    try:
        stage, command, health, patience = build(folder.resolve(), stages)
        stage.path("/models").mkdir()
        run("mount", "--bind", "-o", "ro", models, stage.path("/models"))
        server = subprocess.Popen(stage.inside(*command), start_new_session=True)
        try:
            for _ in range(10 * patience):
                if server.poll() is not None:
                    raise SystemExit(f"image: the server ended with {server.returncode}")
                if subprocess.run(stage.inside(*health), stderr=subprocess.DEVNULL, timeout=10).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                raise SystemExit("image: the health check never found the server well")
            os.killpg(server.pid, signal.SIGTERM)
            if server.wait(60) != 0:
                raise SystemExit(f"image: SIGTERM ended the server with {server.returncode}")
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
    finally:
        unmount_below(folder)
        if not mounts_below(folder):  # never into what is another's
            shutil.rmtree(folder)
    print("image: built as the Dockerfile says, served, well by its health check, and ended by SIGTERM")


main(sys.argv[1], pathlib.Path(sys.argv[2]))
