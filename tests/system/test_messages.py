"""Progress bars: in a notebook tqdm's own, which nothing else draws over, and otherwise only on a terminal."""

import io
import sys

import tqdm.notebook

from encoderlab.system.messages import progress_bar


class Terminal(io.StringIO):
    """Standard error as a person sees it."""

    def isatty(self):
        return True


def in_notebook(monkeypatch, bar):
    """Give standard error to a notebook's kernel, in which tqdm draws a `bar`; return that stream."""
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(tqdm.notebook, "tqdm", bar)
    return stream


def test_a_notebook_has_tqdms_own_bar(monkeypatch):
    bars = []
    stream = in_notebook(monkeypatch, lambda **options: bars.append(options))
    progress_bar("training", "steps", 30, initial=5)
    assert [(bar["desc"], bar["total"], bar["initial"], bar["disable"]) for bar in bars] == [("training", 30, 5, False)]
    assert stream.getvalue() == ""


def test_a_notebook_without_widgets_has_no_bar_and_no_control_characters(monkeypatch):
    def lacking(**_):
        raise ImportError("IProgress not found")

    stream = in_notebook(monkeypatch, lacking)
    with progress_bar("training", "steps", 30) as bar:
        bar.update()
    assert stream.getvalue() == ""


def test_a_terminal_has_a_bar_and_a_file_has_none(monkeypatch):
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("training", "steps", 30) as bar:
            bar.update(30)
        assert ("training: 100%" in stream.getvalue()) is stream.isatty()
