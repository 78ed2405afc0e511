import os
import pathlib

import pytest

import talon

ROOT = pathlib.Path(__file__).parents[2]
SMALL = str(ROOT / "tests/data/models/stories260K.bin")


@pytest.fixture(scope="session")
def small() -> talon.Model:
    """A model of 260,000 weights that tells stories; it has no chat template."""
    return talon.Model(SMALL, threads=1)


@pytest.fixture(scope="session")
def chatty() -> talon.Model:
    """SmolLM2, if it has been pulled."""
    if not (ROOT / "downloads/smollm2").exists():
        pytest.skip("downloads/smollm2 is not there: talon pull smollm2")
    return talon.Model("smollm2", models_folder=str(ROOT / "downloads"))


@pytest.fixture(scope="session")
def program() -> str:
    """The command line, to compare with."""
    found = os.environ.get("TALON_PROGRAM", str(ROOT / "build/talon"))
    if not pathlib.Path(found).exists():
        pytest.skip(f"{found} is not there")
    return found
