"""Fails when a folder of src/ includes a header of a folder below it in the link order (DESIGN 3).

usage: check_layering.py SRC_FOLDER [--expect-violation]
"""
import pathlib
import re
import sys

# Each folder may include itself and the folders listed here.
ALLOWED = {
    "core": set(),
    "io": {"core"},
    "text": {"core", "io"},
    "backend": {"core", "io"},
    "model": {"core", "io", "backend"},
    "tree": {"core", "io"},
    "draft": {"core", "io", "backend", "model", "tree"},
    "verify": {"core", "io", "backend", "tree"},
    "engine": {"core", "io", "text", "backend", "model", "tree", "draft", "verify"},
    "bench": {"core", "io", "text", "backend", "model", "tree", "draft", "verify", "engine"},
    "train": {"core", "io", "text", "backend", "model", "tree", "draft", "verify", "engine"},
    "cli": {"core", "io", "text", "backend", "model", "tree", "draft", "verify", "engine", "bench", "train"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')


def violations(src: pathlib.Path) -> list[str]:
    found = []
    for file in sorted(src.rglob("*")):
        if file.suffix not in {".h", ".cpp"}:
            continue
        folder = file.relative_to(src).parts[0]
        if folder not in ALLOWED:
            found.append(f"{file}: folder src/{folder} is not in the layering")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match[1] in ALLOWED and match[1] != folder and match[1] not in ALLOWED[folder]:
                found.append(f"{file}:{number}: src/{folder} may not include src/{match[1]}")
    return found


def main() -> int:
    found = violations(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "layering holds")
    return int(bool(found)) if "--expect-violation" not in sys.argv else int(not found)


if __name__ == "__main__":
    sys.exit(main())
