"""Hooks of mkdocs. The site keeps the layout of the repository, so a link that works on GitHub works on the site too.

The pages are Markdown files and notebooks. Every other file that a page links to becomes a page of its own that shows
its text.
"""

import base64
import json
import posixpath
import re
import tomllib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("", "docs", "benchmarks")
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)(?=[)#])")
FENCE = "~~~~~~"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version at the foot of every page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.copyright = f"{project['name']} {project['version']}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the theme's files, the style sheet, the pages, their images, and a page for each other file that a page
    links to.
    """
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)  # it comes back under its path in the repository
    pages = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]
    for path in pages:
        files.append(File.generated(config, _uri(path), abs_src_path=str(path)))
    style = ROOT / "docs" / "site.css"
    files.append(File.generated(config, _uri(style), abs_src_path=str(style)))
    notebooks = sorted((ROOT / "docs").glob("*.ipynb"))
    for path in notebooks:
        files.append(File.generated(config, f"{_uri(path)}.md", content=notebook_as_markdown(path)))
    for path in sorted({target for page in [*pages, *notebooks] for target in _linked(page)}):
        if path.suffix in (".png", ".svg"):
            files.append(File.generated(config, _uri(path), abs_src_path=str(path)))
        elif path.is_file() and path.suffix not in (".md", ".ipynb"):
            source = File.generated(
                config, f"{_uri(path)}.md", content=_source_page(path), inclusion=InclusionLevel.NOT_IN_NAV
            )
            files.append(source)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to notebooks and source files to the pages that show them."""
    folder = posixpath.dirname(page.file.src_uri)

    def target(match: re.Match[str]) -> str:
        shown = posixpath.normpath(posixpath.join(folder, match[1])) + ".md"
        return f"{match[1]}.md" if shown in files.src_uris else match[1]

    return LINK.sub(target, markdown)


def notebook_as_markdown(path: Path) -> str:
    """Return a notebook's text, code and saved outputs as Markdown. Nothing is run."""
    return (
        "\n\n".join(part for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] for part in _cell(cell))
        + "\n"
    )


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield re.sub(r"\$\$(.+?)\$\$", lambda match: _formula(match[1]), source, flags=re.DOTALL)
        return
    yield _fenced(source, "python")
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            yield f"![Output](data:image/png;base64,{''.join(data['image/png'].split())})"
        else:
            yield _fenced("".join(data["text/plain"]), "text")


def _formula(formula: str) -> str:
    """Return a formula as an image with its source as alternative text, so that the page needs no script to draw it."""
    from matplotlib import rc_context
    from matplotlib.mathtext import math_to_image

    drawn = BytesIO()
    with rc_context({"savefig.transparent": True}):
        math_to_image(f"${formula.strip()}$", drawn, format="svg")
    return f"![{formula.strip()}](data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()})"


def _source_page(path: Path) -> str:
    try:
        language = get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        language = "text"
    return f"# {_uri(path)}\n\n{_fenced(path.read_text(encoding='utf-8'), language)}\n"


def _fenced(text: str, language: str) -> str:
    return f"{FENCE}{language}\n{text.rstrip()}\n{FENCE}"


def _linked(page: Path) -> Iterator[Path]:
    """Return the files of the repository that a page links to."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if path.is_relative_to(ROOT):
            yield path


def _uri(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
