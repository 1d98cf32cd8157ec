"""The source keeps to its plan: imports only point downward and never form a circle; folders, files, functions and nesting stay small."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "encoderlab"

LAYERS = [  # of ARCHITECTURE.md, the lowest first: each imports from those below it, and neighbours in a layer do not see each other
    {"errors", "batch"},
    {"settings", "system", "entities"},
    {"metrics", "encoders"},
    {"data", "model", "training"},
    {"tasks", "exchange"},
    {"baselines", "config"},
    {"runs"},
    {"reports"},
    {"serving"},
    {"commands", "sweeps"},
    {"cli"},
    {"api", "__main__"},
    {"estimators"},
    {""},  # encoderlab/__init__.py
]
WITHIN = {  # the same for the folders of a package; "" stands for its own modules
    "metrics": [{""}, {"resampling"}],
    "data": [{""}, {"sources", "tokenizers"}, {"files", "sentences", "inspection"}],
    "tasks": [{""}, {"pretraining"}],
    "runs": [
        {"folders", "engine"},
        {"corpora"},
        {"models"},
        {"records", "inference", "dry_run"},
        {"fitting"},
        {"distillation"},
        {"inspection"},
    ],
    "reports": [
        {"parts"},
        {"outputs", "cards"},
        {"training"},
        {"pretraining", "interpretation", "comparison", "screens", "folds"},
    ],
}
MODULES = {  # by dotted name below encoderlab, a package's __init__ by the name of the package
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
    for path in sorted(SOURCE.rglob("*.py"))
}
FOLDERS = {".".join(path.parent.relative_to(SOURCE).parts): path.parent for path in MODULES.values() if path.name == "__init__.py"}
IMPORTERS = {"import_module", "importlib.import_module", "__import__"}  # functions that import what their first argument names
BUDGETED = [*MODULES.values(), *(path for beside in ("benchmarks", "faults") for path in sorted((ROOT / beside).rglob("*.py")))]


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def names_imported(path):
    """Return every dotted name that the file imports: at the top, inside functions, for types only, or as a string."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say the whole name in an import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in IMPORTERS:
            yield re.sub(r"\.?\{.*", "", ast.unparse(node.args[0]).strip("f\"'"))


@pytest.mark.parametrize(
    "line",
    [
        "import encoderlab.system.device",
        "from encoderlab.system import device",
        "def load():\n    from encoderlab.system import device",
        "if TYPE_CHECKING:\n    import encoderlab.system.device as machine",
        "import_module('encoderlab.system.device')",
        "importlib.import_module('encoderlab.system.device').auto()",
        "__import__('encoderlab.system.device')",
    ],
)
def test_every_way_to_import_a_module_is_seen(tmp_path, line):
    (tmp_path / "module.py").write_text(line)
    assert list(modules_imported(tmp_path / "module.py")) == ["system.device"]


def modules_imported(path):
    """Return our own modules that the file imports."""
    for name in names_imported(path):
        if name == "encoderlab" or name.startswith("encoderlab."):
            below = name.removeprefix("encoderlab").removeprefix(".")
            yield below if below in MODULES else below.rpartition(".")[0]


def layer_of(part, layers):
    (layer,) = (number for number, parts in enumerate(layers) if part in parts)
    return layer


def points_downward(importing, imported):
    """Return whether one module may import another (dotted names below encoderlab): from its own folder or a lower one."""
    mine, other = (name.partition(".") for name in (importing, imported))
    if mine[0] != other[0]:
        return layer_of(other[0], LAYERS) < layer_of(mine[0], LAYERS)
    folders = [folder_of(name).partition(".")[2] for name in (importing, imported)]
    return folders[0] == folders[1] or layer_of(folders[1], WITHIN[mine[0]]) < layer_of(folders[0], WITHIN[mine[0]])


def folder_of(module):
    return module if module in FOLDERS else module.rpartition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_point_downward(module):
    upward = [name for name in modules_imported(MODULES[module]) if not points_downward(module, name)]
    assert upward == [], f"{module or 'encoderlab'} may not import {', '.join(upward)}"


def test_imports_form_no_circle():
    try:
        TopologicalSorter({name: set(modules_imported(path)) for name, path in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_architecture_page_shows_the_layers():
    tables = re.findall(r"^\| \| \|\n\|---\|---\|\n(.*?)^$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE | re.DOTALL)
    shown = [[set(re.findall(r"`(\w+)/?`", row.split("|")[1])) for row in table.splitlines()] for table in tables]
    assert shown == [LAYERS[-2::-1], WITHIN["runs"][::-1]]


def test_every_folder_belongs_to_a_layer():
    parts = {name for layer in LAYERS for name in layer}
    assert {name.split(".")[0] for name in MODULES} == parts
    for package, layers in WITHIN.items():
        inside = {name.partition(".")[2] for name in FOLDERS if name.startswith(f"{package}.")}
        assert inside == {name for layer in layers for name in layer} - {""}
    assert {name.split(".")[0] for name in FOLDERS if "." in name} == WITHIN.keys()


@cache
def functions():
    nodes = ((path, node) for path in BUDGETED for node in ast.walk(parsed(path)))
    return [(path, node) for path, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_functions_have_at_most_forty_lines():
    long = [f"{path.name}:{node.name}" for path, node in functions() if _length(node) > 40]
    assert long == []


def _length(node):
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return body[-1].end_lineno - body[0].lineno + 1


def test_nine_of_ten_functions_have_at_most_twenty_five_lines():
    lengths = [_length(node) for _, node in functions()]
    assert sum(length <= 25 for length in lengths) >= 0.9 * len(lengths)


def test_files_have_at_most_three_hundred_lines():
    assert [path.name for path in BUDGETED if path.read_text(encoding="utf-8").count("\n") > 300] == []


def test_nothing_nests_deeper_than_three_blocks():
    blocks = (ast.For, ast.While, ast.If, ast.With, ast.Try)

    def depth(node, inside=0):
        deeper = inside + isinstance(node, blocks)
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef)]
        # elif is written flat, and reads flat
        return max([deeper, *(depth(child, deeper - _is_elif(node, child)) for child in children)])

    def _is_elif(node, child):
        return isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]

    assert [f"{path.name}:{node.name}" for path, node in functions() if depth(node) > 3] == []


def test_every_module_opens_with_a_sentence_that_says_what_it_is():
    assert [name for name, path in MODULES.items() if not ast.get_docstring(parsed(path))] == []


@pytest.mark.parametrize("package", [name for name in FOLDERS if name])
def test_a_package_docstring_is_one_sentence(package):
    sentence = ast.get_docstring(parsed(MODULES[package]))
    assert sentence.endswith(".") and "\n" not in sentence and not re.search(r"\.\s", sentence), sentence


def test_a_folder_holds_at_most_twelve_modules_and_the_top_six():
    sizes = {name: len(list(folder.glob("*.py"))) - (name != "") for name, folder in FOLDERS.items() if name != "commands"}
    assert {name: size for name, size in sizes.items() if size > (12 if name else 6)} == {}


def test_the_tests_mirror_the_tree():
    tests = ROOT / "tests"
    folders = {".".join(path.parent.relative_to(tests).parts) for path in tests.rglob("test_*.py")}
    assert {name for name in folders - FOLDERS.keys() if name.split(".")[0] not in ("benchmarks", "faults")} == set()


WITHOUT_TESTS = {"__main__": "it only calls cli.main; tests/cli and tests/commands/test_serve.py run it as a process"}


def test_every_module_has_its_tests_at_the_same_path():
    here = {name: ROOT / "tests" / path.relative_to(SOURCE).with_name(f"test_{path.name}") for name, path in MODULES.items()}
    untested = {name for name, path in here.items() if name not in FOLDERS and not path.is_file()}
    assert untested == WITHOUT_TESTS.keys()


def test_no_catch_all_module_names_and_no_bare_except():
    assert [path for path in MODULES.values() if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []
    for path in MODULES.values():
        for node in ast.walk(parsed(path)):
            assert not (isinstance(node, ast.ExceptHandler) and node.type is None), path


def test_help_and_completion_load_nothing_heavy():
    """Before a command runs, the command line loads no torch, so that --help answers at once."""
    import subprocess
    import sys

    code = (
        "import sys, encoderlab.cli.main, encoderlab.cli.help, encoderlab.config.hydra_errors, encoderlab.config.overrides;"
        "print([name for name in ('torch', 'datasets', 'transformers', 'sklearn', 'pandas', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
