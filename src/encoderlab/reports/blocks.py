"""What a report shows, described once as blocks, and the ways to show blocks: on the terminal, in a notebook, and as an
HTML page.

Pages are single files that load nothing and follow the reader's light or dark theme. Everything they write is escaped
except `Markup`, and control characters are made printable on pages and screen.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from markupsafe import Markup, escape
from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text as Styled

from encoderlab.errors import printable
from encoderlab.system.files import atomic_write_text
from encoderlab.system.messages import is_notebook

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

UNLIMITED = 10_000  # characters per line of what is not a terminal: a file or a pipe
STYLES = {"bold": "bold", "good": "bold green", "bad": "bold red"}
# The colours of plots, and the page's colour of the same name; black is the page's text colour.
COLORS = {"#0072b2": "blue", "#d55e00": "orange", "#009e73": "green", "#666666": "grey"}
TEMPLATES = Path(__file__).parent / "templates"
_BOUNDS = re.compile(r"(?<=\d) to (?=[+-]?\d)")  # between those of an interval
# A blank at which rich does not break a line, as it does at whatever Python takes for white space.
_UNBROKEN = "\ue000"


@dataclass(frozen=True, slots=True)
class Heading:
    """A section's title; `level` is HTML's: 1 is the page's title."""

    title: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a line on the screen, perhaps after a `title`. Without words it is left out.

    `tone` is one of good, bad, quiet and bold, or empty.
    """

    words: str
    title: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The number that a page is about, its name, and beside it what one has to know to read it; the screen has a
    `Heading` instead.
    """

    value: str
    name: str
    facts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their `columns`: texts in the first `n_texts` columns, numbers in the others.

    `marked` is the row of what the report is about.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_texts: int = 1
    marked: int | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """Lines under a title, which the screen never wraps, so that they can be copied; left out if there are none."""

    title: str
    lines: Sequence[str]

    @classmethod
    def files(cls, paths: Mapping[str, str]) -> Items:
        """Return a line for each file of a run by its name."""
        return cls("Files", [f"{name}: {path}" for name, path in paths.items()])


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, which only a page shows, with a caption, which also describes it for screen readers."""

    figure: Figure
    description: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A confusion matrix: true classes as rows, predicted ones as columns."""

    names: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text from the data under a `heading`, which is a list of words and their tones.

    Each of `texts` is a list of parts with `text` and `weight`, from -1 (against) to 1 (for); a part may have a `note`
    below it and be `wrong`.
    """

    heading: Sequence[tuple[str, str]]
    texts: Sequence[Sequence[Mapping[str, Any]]]


Block = Heading | Text | Headline | Table | Items | Plot | Matrix | Passage


def write_html(page: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write the page of these blocks, with links to its sections: whole or not at all."""
    links = [block.title for block in blocks if isinstance(block, Heading) and block.level == 2]
    atomic_write_text(page, render("page.html", title=title, blocks=blocks, links=links, svg=svg, anchor=anchor))


def write_html_json(page: Path, title: str, blocks: Sequence[Block], content: Any) -> None:
    """Write the page of these blocks, and their `content` as JSON: whole or not at all."""
    write_html(page, title, blocks)
    # The last file: with it a run is finished (`Run.finished`).
    atomic_write_text(page.with_suffix(".json"), json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def anchor(title: str) -> str:
    """Return the id of a section."""
    return re.sub(r"\W+", "-", title.lower())


def render(template: str, folder: Path = TEMPLATES, /, **values: Any) -> str:
    """Return the page that a template of a folder makes from `values`; a missing name is a bug.

    An application's own template may extend those of reports.
    """
    return _environment(folder).get_template(template).render(**values)


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
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

    from encoderlab.reports.plots import quietly_drawn

    figure: Figure = plot.figure
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    file = io.StringIO()
    salt = hashlib.sha256(plot.description.encode()).hexdigest()[:12]  # the ids of two plots on one page must differ
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}), quietly_drawn():
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # drawn once, see `plots.write_png`
    drawn = re.sub(r"#000000|black", "currentColor", file.getvalue()[file.getvalue().index("<svg") :])
    drawn = re.sub("|".join(COLORS), lambda match: f"var(--{COLORS[match[0]]})", drawn)
    sized = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", drawn.replace("\n", " ", 1), count=1)
    return Markup(sized.replace("<svg ", f'<svg role="img" aria-label="{escape(plot.description)}" ', 1))  # noqa: S704


class _SafeConsole(Console):
    """A console that does not pass control characters in labels and texts to the terminal, as rich itself does, and
    leaves it to the command line to end when a reader is gone, as with `| head`: rich would exit with 1.
    """

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that rich has caught."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield rich's segments with their texts made printable."""
        for text, style, control in super().render(renderable, options):
            shown = text.replace(_UNBROKEN, " ")
            yield Segment(shown if control else "\n".join(map(printable, shown.split("\n"))), style, control)


def show(blocks: Iterable[Block], file: TextIO | None = None) -> None:
    """Print the blocks, on standard error unless `file` is given. Only pages have plots and matrices.

    Texts stay as they are, brackets too, and are plain and unwrapped if `file` is not a terminal. A notebook shows all
    blocks together as HTML.
    """
    target = file or sys.stderr
    if is_notebook(target):
        _display(list(blocks))
        return
    is_terminal = target.isatty()
    width = None if is_terminal else UNLIMITED
    # Not a terminal, even if a notebook's FORCE_COLOR says so, has no use for colours.
    console = _SafeConsole(
        file=target,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=is_terminal,
        force_jupyter=False,
    )
    for block in blocks:
        if isinstance(block, Table):
            console.print("", _rich_table(block, console.width), "", sep="\n")
        elif isinstance(block, Heading):
            console.print()
            console.print(Styled(block.title, style="bold"), soft_wrap=True)
        elif isinstance(block, Text) and block.words:
            title = Styled(f"{block.title}: " if block.title else "", style="bold")
            console.print(title.append(Styled(block.words, style=STYLES.get(block.tone, ""))), soft_wrap=True)
        elif isinstance(block, Items) and block.lines:
            console.print(Styled(block.title, style="bold"))
            for line in block.lines:
                console.print(Styled(f"  {line}"), soft_wrap=True)
        elif isinstance(block, Passage):
            console.print(Styled("".join(words for words, _ in block.heading), style="bold"), soft_wrap=True)
            for text in block.texts:
                console.print(Styled("".join(part["text"] for part in text)), soft_wrap=True)


def _display(blocks: Sequence[Block]) -> None:
    """Show blocks below the cell of a notebook that runs."""
    display = importlib.import_module("IPython.display")
    html = render("notebook.html", blocks=blocks, svg=svg, anchor=anchor)
    display.display(display.HTML(html))


def _rich_table(table: Table, width: int) -> rich_table.Table:
    """Return the table for a console that is so wide. If it is wider, the words of its numbers stand below each other,
    but intervals stay whole.
    """
    is_narrow = _natural_width(table) > width
    beside = 0 if is_narrow else 1  # blanks, and one that divides columns
    printed = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, beside))
    for place, name in enumerate(table.columns):
        is_text = place < table.n_texts
        header = name.replace(" ", "\n") if is_narrow and not is_text else name
        fits = is_narrow and not is_text
        printed.add_column(header, justify="left" if is_text else "right", overflow="fold", no_wrap=fits)
    for row in table.rows:
        numbers = [_BOUNDS.sub(f"{_UNBROKEN}to{_UNBROKEN}", cell) for cell in row[table.n_texts :]]
        if is_narrow:
            numbers = [cell.replace(" ", "\n") for cell in numbers]
        printed.add_row(*row[: table.n_texts], *numbers)
    return printed


def _natural_width(table: Table) -> int:
    """Return how many characters wide a table is if no cell is broken."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    return sum(widths) + 3 * len(widths)


def json_safe(value: Any) -> Any:
    """Return `value` in JSON's types; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
