"""The programs in a card: they must be valid, and use only names that they define."""

import ast
import builtins
import re


def programs_in(card):
    """Return the Python programs of a card, each parsed."""
    return [ast.parse(code) for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL)]


def unknown_names(program):
    """Return the names that a program reads but never sets or imports."""
    names = [node for node in ast.walk(program) if isinstance(node, ast.Name)]
    known = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    known |= {
        alias.asname or alias.name
        for node in ast.walk(program)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {node.id for node in names} - known
