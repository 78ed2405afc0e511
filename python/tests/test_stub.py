import ast
import pathlib
import re

import pytest

from talon import _talon

STUB = ast.parse((pathlib.Path(__file__).parents[1] / "talon/_talon.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def signatures(body: list[ast.stmt]) -> dict[str, list[str]]:
    """Parameters by name of function; attributes have none."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = [one.arg for one in node.args.args if one.arg != "self"]
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = []
    return found


def compiled(of: object, name: str) -> list[str]:
    text = getattr(getattr(of, name), "__nb_signature__", [["def f()"]])[0][0]
    return [one for one in re.findall(r"[(,] ?(\w+)(?=[:,)])", re.sub(r"\[.*?\]", "", text)) if one != "self"]


def public(of: object) -> set[str]:
    return {name for name in vars(of) if not name.startswith("_")} | ({"__init__"} & set(vars(of)))


def test_the_stub_names_what_is_compiled():
    assert public(_talon) == set(CLASSES) | {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_of_each_class_has_its_attributes_and_parameters(name):
    runtime, stub = getattr(_talon, name), signatures(CLASSES[name].body)
    assert public(runtime) == {one for one in stub if not one.startswith("__")} | ({"__init__"} & set(vars(runtime)))
    for method, parameters in stub.items():
        if not method.startswith("__"):
            assert compiled(runtime, method) == parameters, method
