"""Where models, heads and measured costs lie: the places that the command line looks at, too."""
from __future__ import annotations

import os
import pathlib


def models_folder() -> str | None:
    """$TALON_MODELS, else ./downloads if it is there, else $XDG_DATA_HOME/talon or ~/.local/share/talon."""
    if chosen := os.environ.get("TALON_MODELS"):
        return chosen
    if pathlib.Path("downloads").is_dir():
        return "downloads"
    if data := os.environ.get("XDG_DATA_HOME"):
        return f"{data}/talon"
    home = os.environ.get("HOME")
    return f"{home}/.local/share/talon" if home else None


def costs_folder() -> str | None:
    """$XDG_CACHE_HOME/talon/costs, else ~/.cache/talon/costs."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return f"{cache}/talon/costs"
    home = os.environ.get("HOME")
    return f"{home}/.cache/talon/costs" if home else None


def head_folders() -> list[str]:
    """./models, and the heads that ship with the package."""
    return ["models", str(pathlib.Path(__file__).parent / "models")]
