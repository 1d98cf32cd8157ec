"""Reports as HTML pages: single files that load nothing, open from disk, and follow the reader's light or dark theme.

The templates are in `templates/`. Everything they write is escaped except `Markup`, and control characters are made
printable. A Content-Security-Policy keeps a page from loading anything.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from encoderlab.errors import printable
from encoderlab.reports.tables import Block, Heading, Plot
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

# The colours of plots, and the page's colour of the same name; black is the page's text colour.
COLORS = {"#0072b2": "blue", "#d55e00": "orange", "#009e73": "green", "#666666": "grey"}
TEMPLATES = Path(__file__).parent / "templates"
FEWEST_LINKS = 4  # sections, from which on a page starts with links to them


def write_page(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write the page of these blocks, whole or not at all."""
    atomic_write_text(path, page(title, blocks))


def page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page of these blocks, with links to its sections if there are many."""
    sections = [block.title for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = sections if len(sections) >= FEWEST_LINKS else []
    return render("page.html", title=title, blocks=blocks, links=links, svg=svg, anchor=anchor)


def anchor(title: str) -> str:
    """Return the id of a section."""
    return re.sub(r"\W+", "-", title.lower())


def render(template: str, **values: Any) -> str:
    """Return the page that `templates/<template>` makes from `values`; a missing name is a bug."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=lambda name: str(name).endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: "\n".join(map(printable, value.split("\n"))) if type(value) is str else value,
    )


def svg(plot: Plot) -> Markup:
    """Return a plot as inline SVG with a transparent background, in the page's own colours."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure: Figure = plot.figure
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    file = io.StringIO()
    salt = hashlib.sha256(plot.description.encode()).hexdigest()[:12]  # the ids of two plots on one page must differ
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # drawn once, see `plots.write_png`
    drawn = re.sub(r"#000000|black", "currentColor", file.getvalue()[file.getvalue().index("<svg") :])
    drawn = re.sub("|".join(COLORS), lambda match: f"var(--{COLORS[match[0]]})", drawn)
    sized = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", drawn.replace("\n", " ", 1), count=1)
    return Markup(sized.replace("<svg ", f'<svg role="img" aria-label="{escape(plot.description)}" ', 1))  # noqa: S704
