"""HTML pages: single self-contained files that open from disk, and follow the reader's light or dark theme.

The templates are in `templates/`; each extends base.html, which has the style and a policy under which a page cannot
load anything. Everything a template writes is escaped, except `Markup`.
"""

from __future__ import annotations

import hashlib
import io
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

# The colours of plots, and the page's colour of the same name; black is the page's text colour.
COLORS = {"#0072b2": "blue", "#d55e00": "orange", "#009e73": "green", "#666666": "grey"}
TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write the page that a template makes from `values`, whole or not at all."""
    atomic_write_text(path, page(template, **values))


def page(template: str, **values: Any) -> str:
    """Return the page that `templates/<template>` makes from `values`; a missing name is a bug."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def picture(figure: Figure, description: str) -> Markup:
    """Return a plot as inline SVG with a transparent background, in the page's own colours.

    `description` says in a sentence what it shows, for screen readers.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    file = io.StringIO()
    salt = hashlib.sha256(description.encode()).hexdigest()[:12]  # the ids of two plots on one page must differ
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # drawn once, see `plots.write_png`
    drawn = re.sub(r"#000000|black", "currentColor", file.getvalue()[file.getvalue().index("<svg") :])
    drawn = re.sub("|".join(COLORS), lambda found: f"var(--{COLORS[found[0]]})", drawn)
    shown = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", drawn.replace("\n", " ", 1), count=1)
    labelled = shown.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
    return Markup(f'<figure class="plot">{labelled}</figure>')  # noqa: S704
