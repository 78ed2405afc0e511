"""Fails when a file of src/ includes a header of a folder that its own folder does not link.

LAYERS is what CMake writes into the build folder: a line `FOLDER: FOLDER...` for each library, with the libraries it links.
usage: check_layering.py LAYERS SRC_FOLDER [--expect-violation]
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_layers(file: pathlib.Path) -> dict[str, set[str]]:
    """Each folder with all that it may include: itself and what it links, directly or through others."""
    linked = {}
    for line in file.read_text().splitlines():
        folder, _, others = line.partition(":")
        linked.setdefault(folder, set()).update(others.split())

    def reachable(folder: str, seen: set[str]) -> set[str]:
        for other in linked.get(folder, set()) - seen:
            reachable(other, seen | {other})
            seen |= {other} | reachable(other, seen | {other})
        return seen

    return {folder: reachable(folder, {folder}) for folder in linked}


def folder_of(path: str, layers: dict[str, set[str]]) -> str | None:
    """The innermost folder that is a library."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in layers), None)


def violations(src: pathlib.Path, layers: dict[str, set[str]]) -> list[str]:
    found = []
    for file in sorted(src.rglob("*")):
        if file.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        name = file.relative_to(src).as_posix()
        folder = folder_of(name, layers)
        if folder is None:
            found.append(f"{file}: src/{name} belongs to no library")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            other = folder_of(match[1], layers) if match else None
            if other is not None and other not in layers[folder]:
                found.append(f"{file}:{number}: src/{folder} does not link src/{other}")
    return found


def main() -> int:
    found = violations(pathlib.Path(sys.argv[2]), read_layers(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "layering holds")
    return int(bool(found)) if "--expect-violation" not in sys.argv else int(not found)


if __name__ == "__main__":
    sys.exit(main())
