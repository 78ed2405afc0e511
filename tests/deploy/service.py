"""The Debian packages as a system has them: installed in a root of debootstrap's, which systemd-nspawn boots, with the service of
packaging/systemd under systemd, first for everybody, then with a key that is a credential. For root.

usage: service.py TALON PACKAGES MODELS FOLDER     MODELS: what `talon pull` fetched, with smollm2
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

from run import free_port, get, until

PROMPT = "The capital of France is"
KEY = "one-of-the-keys"
# As packaging/systemd/talon.service says.
DROP_IN = """[Service]
LoadCredential=api-keys:/etc/talon/api-keys
Environment="TALON_KEYS=--api-key-file %d/api-keys"
"""


def run(*command, **more) -> None:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise SystemExit(f"service: {command[0]}: {done.stdout[-2000:]}")


def install(root: pathlib.Path, packages: pathlib.Path, models: pathlib.Path, port: int) -> None:
    run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", root)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    files = [file for name in ("talon_", "talon-heads_") for file in packages.glob(name + "*.deb")]
    for file in files:
        shutil.copy(file, root / file.name)
    names = [f"/{file.name}" for file in files]
    run("chroot", root, "apt-get", "update", "-qq")
    run("chroot", root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *names, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    shutil.copytree(models / "smollm2", root / "var/lib/talon/smollm2")
    (root / "etc/default/talon").write_text(f"TALON_OPTIONS=--port {port}\n")
    run("chroot", root, "systemctl", "enable", "talon")


def ask_for_key(root: pathlib.Path) -> None:
    keys, drop_in = root / "etc/talon/api-keys", root / "etc/systemd/system/talon.service.d/keys.conf"
    for file, text in ((keys, f"another\n{KEY}\n"), (drop_in, DROP_IN)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    keys.chmod(0o600)


@contextlib.contextmanager
def booted(root: pathlib.Path):
    machine = boot(root)
    try:
        yield
    finally:
        machine.terminate()  # the machine goes down
        try:
            machine.wait(90)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()
    if server_process()[0]:
        raise SystemExit("service: it outlived its machine")


def boot(root: pathlib.Path) -> subprocess.Popen:
    hierarchy = pathlib.Path("/sys/fs/cgroup/systemd")  # of a machine without systemd
    if not hierarchy.exists() and not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        hierarchy.mkdir()
        run("mount", "-t", "cgroup", "-o", "none,name=systemd", "systemd", hierarchy)
    return subprocess.Popen(["systemd-nspawn", "-q", "-D", str(root), "--boot", "--register=no", "--keep-unit", "--console=pipe"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def server_process() -> tuple[int, int]:
    """Process and user of the service."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_service = "/talon.service" in (process / "cgroup").read_text()
            if is_service and b"\0serve\0" in (process / "cmdline").read_bytes():
                return int(process.name), process.stat().st_uid
        except OSError:  # it ended
            pass
    return 0, 0


def said(address: str, key: str = "none") -> str:
    body = json.dumps({"prompt": PROMPT, "max_tokens": 24, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(address + "/v1/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["text"]


def check(talon: str, models: pathlib.Path, address: str) -> str:
    """Returns what the service says."""
    def is_ready() -> bool:
        return get(address + "/ready")[0] == 200

    until(is_ready, "the service to be ready")
    process, user = server_process()
    if user == 0:
        raise SystemExit("service: expected a user of its own, found root")
    expected = subprocess.run([talon, "run", "-m", "smollm2", "--models", str(models), "-p", PROMPT, "-n", "24", "-d", "none"],
                              check=True, capture_output=True, text=True).stdout
    found = said(address)
    if found.strip() != expected.strip().removeprefix(PROMPT).strip():
        raise SystemExit(f"service: expected {expected!r}, found {found!r}")
    os.kill(process, signal.SIGKILL)
    until(lambda: server_process()[0] not in (0, process) and is_ready(), "another server after one that was killed")
    return found


def check_key(address: str, expected: str) -> None:
    until(lambda: get(address + "/ready")[0] == 200, "the service with a key to be ready")
    status = get(address + "/v1/models")[0]
    if status != 401:
        raise SystemExit(f"service: expected 401 without the key, found {status}")
    if (found := said(address, KEY)) != expected:
        raise SystemExit(f"service: with the key: expected {expected!r}, found {found!r}")


def main(talon: str, packages: str, models: str, folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    root, port = folder.resolve() / "root", free_port()
    install(root, pathlib.Path(packages), pathlib.Path(models), port)
    address = f"http://127.0.0.1:{port}"
    with booted(root):
        text = check(talon, pathlib.Path(models), address)
    ask_for_key(root)
    with booted(root):
        check_key(address, text)
    shutil.rmtree(folder)
    print("service: installed from its package, ready under systemd, the same text, back after it was killed, and with a key")


main(sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]))
