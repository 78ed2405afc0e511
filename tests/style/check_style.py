"""Fails when a file is larger, a line longer or a folder fuller than this project allows, when a document names a file that is
not there or has another figure than bench/results, when a page was built of other sources than these, or when clang-format would
change a file.

usage: check_style.py [--no-format] [--no-sizes]     (in the repository)
"""
import collections
import hashlib
import pathlib
import re
import subprocess
import sys

FILE_LINES = 450  # of code, in whichever language
FOLDER_FILES = 30  # directly in a folder of src/, tests included
CODE_COLUMNS = 100
TEXT_COLUMNS = 120  # of documents; tables and addresses cannot be broken
CODE = {".h", ".cpp", ".cu", ".cuh"}
OTHER_CODE = {".py", ".sh", ".rs", ".ts", ".mjs", ".css"}


def tracked() -> list[pathlib.PurePosixPath]:
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [pathlib.PurePosixPath(name) for name in names if pathlib.Path(name).is_file()]


def is_document(path: pathlib.PurePosixPath) -> bool:
    return path.suffix == ".md" and path.parts[0] in {"docs", "README.md", "CONTRIBUTING.md", "examples"}


def long_lines(path: pathlib.PurePosixPath, columns: int) -> list[str]:
    found = []
    raw = False  # inside a raw string, whose lines are as they are
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        inside = raw
        begins, ends = line.rfind('R"'), line.rfind(')"')
        raw = begins > ends or (raw and ends < 0)
        breakable = not inside and begins < 0 and not line.startswith("|") and " " in line.strip() and "https://" not in line
        if len(line) > columns and breakable:
            found.append(f"{path}:{number}: {len(line)} columns, at most {columns}")
    return found


def sizes(paths: list[pathlib.PurePosixPath]) -> list[str]:
    found = []
    folders = collections.Counter()
    for path in paths:
        if path.suffix in CODE:
            found += long_lines(path, CODE_COLUMNS)
        if is_document(path):
            found += long_lines(path, TEXT_COLUMNS)
        if path.suffix in CODE | OTHER_CODE:
            lines = len(pathlib.Path(path).read_text().splitlines())
            if lines > FILE_LINES:
                found.append(f"{path}: {lines} lines, at most {FILE_LINES}")
        if path.parts[0] == "src":
            folders[path.parent] += 1
    for folder, count in sorted(folders.items()):
        if count > FOLDER_FILES:
            found.append(f"{folder}: {count} files, at most {FOLDER_FILES}")
    return found


def dead_references(paths: list[pathlib.PurePosixPath]) -> list[str]:
    """Links, and paths from the repository's root in backticks."""
    found = []
    tops = {path.parts[0] for path in paths if len(path.parts) > 1} - {"build"}
    for path in filter(is_document, paths):
        text = pathlib.Path(path).read_text()
        links = [path.parent / link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if ":" not in link]
        named = [pathlib.PurePosixPath(name) for name in re.findall(r"`([\w.-]+/[\w./-]+)`", text)]
        for name in links + [name for name in named if name.parts[0] in tops]:
            if not pathlib.Path(name).exists():
                found.append(f"{path}: names {name}, which is not there")
    return found


def stale_figures() -> list[str]:
    result = subprocess.run([sys.executable, "bench/table.py", "--check", "bench/results"], capture_output=True, text=True)
    return result.stderr.splitlines() if result.returncode != 0 else []


def stale_pages(paths: list[pathlib.PurePosixPath]) -> list[str]:
    """dist/sources.txt of a page has the sums of what it was built of (scripts/web_page.sh)."""
    found = []
    for page in [path.parents[1] for path in paths if path.match("web/*/dist/index.html")]:
        own = [path.relative_to(page).as_posix() for path in paths if page in path.parents]
        sources = sorted(name for name in own if name.startswith("src/") or name in {"index.html", "package-lock.json", "vite.config.ts"})
        sums = [f"{hashlib.sha256(pathlib.Path(page / name).read_bytes()).hexdigest()}  {name}" for name in sources]
        built = pathlib.Path(page / "dist/sources.txt")
        if not built.exists() or built.read_text().splitlines() != sums:
            found.append(f"{page}/dist: built of other sources than these (make pages)")
    return found


def misformatted(paths: list[pathlib.PurePosixPath]) -> list[str]:
    files = [str(path) for path in paths if path.suffix in CODE]
    result = subprocess.run(["clang-format-14", "--dry-run", *files], capture_output=True, text=True)
    if result.returncode != 0:
        return ["clang-format-14 failed: " + result.stderr]
    found = {line.split(":")[0] for line in result.stderr.splitlines() if "clang-format-violations" in line}
    return [f"{name}: not formatted (make format)" for name in sorted(found)]


def main() -> int:
    paths = tracked()
    found = [] if "--no-sizes" in sys.argv else sizes(paths)
    found += dead_references(paths)
    found += stale_figures()
    found += stale_pages(paths)
    if "--no-format" not in sys.argv:
        found += misformatted(paths)
    print("\n".join(found) or f"{len(paths)} files are in style")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
