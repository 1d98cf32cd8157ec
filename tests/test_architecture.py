"""The source keeps to its plan: imports only point downward and never form a circle."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "encoderlab"

LAYERS = [  # of ARCHITECTURE.md, the lowest first: each imports from those below it, and neighbours do not see each other
    {"errors", "batch"},
    {"settings", "system"},
    {"metrics", "shipped"},
    {"network", "reports", "linear"},
    {"tables"},
    {"training"},
    {"data"},
    {"tasks", "exchange"},
    {"baselines", "config"},
    {"models"},
    {"runs"},
    {"recipes"},
    {"commands"},
    {"apps"},  # an outer ring: nothing inside imports an application
    {"cli"},
    {"api", "__main__"},
    {""},  # encoderlab/__init__.py
]
MODULES = {  # by dotted name below encoderlab, a package's __init__ by the name of the package
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
    for path in sorted(SOURCE.rglob("*.py"))
}
IMPORTERS = {"import_module", "importlib.import_module", "__import__"}  # functions that import what they are given


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def names_imported(path):
    """Return every dotted name that the file imports: at the top, inside functions, for types only, or as a string."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in IMPORTERS and node.args:
            yield ast.unparse(node.args[0]).strip("f\"'").partition("{")[0].rstrip(".")


def modules_imported(path):
    """Return our own modules that the file imports."""
    for name in names_imported(path):
        if name == "encoderlab" or name.startswith("encoderlab."):
            below = name.removeprefix("encoderlab").removeprefix(".")
            yield below if below in MODULES else below.rpartition(".")[0]


def layer_of(module):
    (layer,) = (number for number, packages in enumerate(LAYERS) if module.partition(".")[0] in packages)
    return layer


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_point_downward(module):
    package = module.partition(".")[0]
    others = [name for name in modules_imported(MODULES[module]) if name.partition(".")[0] != package]
    upward = [name for name in others if layer_of(name) >= layer_of(module)]
    assert upward == [], f"{module or 'encoderlab'} may not import {', '.join(upward)}"


def test_imports_form_no_circle():
    try:
        TopologicalSorter({name: set(modules_imported(path)) for name, path in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_every_module_says_what_it_is():
    assert [name for name, path in MODULES.items() if not ast.get_docstring(parsed(path))] == []
