"""The house keeps its plan: rooms import downward only, and files, functions and nesting stay within their budgets."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "encoderlab"

GROUND = {"errors", "settings"}
SHIPPED = {"encoders", "manifest"}
MAY_IMPORT = {  # the table of ARCHITECTURE.md
    "__main__": {"cli"},
    "from_python": {
        "cli",
        "commands",
        "runs",
        "config",
        "command_settings",
        "config_errors",
        "composing",
        "overrides",
        "data",
        "errors",
    },
    "cli": {
        "commands",
        "command_help",
        "command_settings",
        "config",
        "config_errors",
        "composing",
        "overrides",
        "interruption",
        "errors",
        "runs",
        "searching",
        "sweeping",
        "torchrun",
        "world",
    },
    "searching": {"sweeping", "reports", "runs", "aside", "errors"},
    "sweeping": {"reports", "runs", "config", "config_errors", "command_settings", "device", "interruption", "errors"},
    "command_help": {"commands", "command_settings", "config", *GROUND},
    "commands": {
        "aside",
        *SHIPPED,
        "interruption",
        "reports",
        "runs",
        "config",
        "command_settings",
        "preparation_settings",
        "tasks",
        "training",
        "model",
        "data",
        "metrics",
        "batch",
        "device",
        "world",
        *GROUND,
    },
    "reports": {"aside", "encoders", "runs", "metrics", "batch", "errors"},
    "runs": {
        "aside",
        *SHIPPED,
        "bounded_yaml",
        "interruption",
        "config",
        "command_settings",
        "tasks",
        "training",
        "model",
        "data",
        "metrics",
        "batch",
        "device",
        "world",
        *GROUND,
    },
    "config_errors": {"config", *GROUND},
    "composing": {"bounded_yaml", "errors"},
    "bounded_yaml": set(),
    "overrides": set(),
    "config": {"overrides", "command_settings", "preparation_settings", "data", "model", "tasks", "training", *GROUND},
    "preparation_settings": {"command_settings", "data", "model", "tasks", *GROUND},
    "command_settings": {"encoders", "data", "model", "tasks", "training", *GROUND},
    "tasks": {"data", "metrics", "batch", *GROUND},
    "training": {"aside", "manifest", "interruption", "metrics", "batch", "device", "world", *GROUND},
    "model": {"batch", *GROUND},
    "metrics": {"batch", "errors"},
    "data": {"aside", *GROUND},
    "settings": {"errors"},
    "device": {"errors", "world"},
    "world": {"errors"},
    "torchrun": {"errors", "world"},
    "encoders": {"manifest", "errors"},
    "manifest": {"aside"},
    "batch": set(),
    "errors": set(),
    "aside": set(),
    "interruption": {"errors", "world"},
    "__init__": {"from_python"},
}
FILES = sorted(SOURCE.rglob("*.py"))
BUDGETED = [*FILES, *(path for beside in ("benchmarks", "faults") for path in sorted((SOURCE.parents[1] / beside).rglob("*.py")))]


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules_imported(path):
    """Every module of ours that the file names in an import, those under TYPE_CHECKING and inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say the whole name in an import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            names = [ast.unparse(node.args[0]).strip("f\"'")]
        yield from (name for name in names if name.split(".")[0] == "encoderlab" and "." in name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_import_downward_only(path):
    room = room_of(path)
    for name in modules_imported(path):
        other = name.split(".")[1]
        assert other == room or other in MAY_IMPORT[room], f"{room} may not import {name}"


def test_no_file_imports_itself_in_a_circle():
    stems = {".".join(("encoderlab", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in FILES}
    stems |= {name.removesuffix(".__init__"): path for name, path in list(stems.items())}

    def targets(path):
        for name in modules_imported(path):
            target = stems.get(name) or stems.get(name.rpartition(".")[0])
            if target is not None and target != path:
                yield target

    top_level = {path: set() for path in FILES}
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        loaded = {node.lineno for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
        only_top = ast.Module([node for node in tree.body if node.lineno in loaded], [])
        scratch = {
            f"{node.module}.{alias.name}" for node in ast.walk(only_top) if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        top_level[path] = {target for target in targets(path) if any(_same(target, name, stems) for name in scratch)}
    finished, open_ = set(), []

    def visit(path):
        assert path not in open_, " -> ".join(str(p.relative_to(SOURCE)) for p in [*open_, path])
        if path in finished:
            return
        open_.append(path)
        for target in top_level[path]:
            visit(target)
        finished.add(open_.pop())

    for path in FILES:
        visit(path)


def _same(target, name, stems):
    return target in (stems.get(name), stems.get(name.rpartition(".")[0]))


def functions():
    for path in BUDGETED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


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
    empty = [path for path in FILES if path.read_text(encoding="utf-8").strip() == ""]
    assert [str(path.relative_to(SOURCE)) for path in empty if path.name != "__init__.py"] == []
    assert [
        str(path.relative_to(SOURCE)) for path in FILES if path not in empty and not ast.get_docstring(ast.parse(path.read_text()))
    ] == []


def test_no_attic_names_and_no_catch_all():
    assert [path for path in FILES if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ExceptHandler) and node.type is None), path


def test_help_and_completion_load_nothing_heavy():
    """What the command line loads before a command runs holds no torch, so that --help answers at once."""
    import subprocess
    import sys

    code = (
        "import sys, encoderlab.cli.main, encoderlab.cli.help, encoderlab.config.hydra_errors, encoderlab.config.overrides;"
        "print([name for name in ('torch', 'datasets', 'transformers', 'sklearn', 'pandas', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
