"""Promises whose trials are tests of the suite, run by pytest; a property counts by the examples it was tried with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator

from benchmarks.processes import ROOT
from faults.promise import Conditions, Trial, UnavailableError

PROPERTY, PASSING = re.compile(r"\S+::(\S+):"), re.compile(r"\s+- (\d+) passing\b")  # how hypothesis reports a property
OPTIONS = ("-q", "-p", "no:cacheprovider", "--hypothesis-show-statistics")


def by_tests(*paths: str) -> Callable[[Conditions], Iterator[Trial]]:
    """Return what runs and counts the tests of these files, classes or functions, given by pytest's names."""

    def tried(conditions: Conditions) -> Iterator[Trial]:
        missing = [path for path in paths if not (ROOT / path.partition("::")[0]).exists()]
        if missing:
            raise UnavailableError(f"{', '.join(missing)} is not there")
        written = conditions.scratch / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            *OPTIONS,
            f"--junitxml={written}",
            f"--hypothesis-seed={conditions.seed}",
            *paths,
        ]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        output = subprocess.run(command, cwd=ROOT, env=one_thread, capture_output=True, text=True, check=False).stdout
        if not written.exists():
            raise UnavailableError(f"pytest could not run them: {output.strip().splitlines()[-1:]}")
        yield from _trials(ElementTree.parse(written).getroot(), examples_in(output))

    return tried


def examples_in(output: str) -> dict[str, int]:
    """Return the number of examples of each property over all phases, by the test's name."""
    found: dict[str, int] = {}
    name = ""
    for line in output.splitlines():
        if begun := PROPERTY.fullmatch(line):
            name = begun[1]
        elif counted := PASSING.match(line):
            found[name] = found.get(name, 0) + int(counted[1])
    return found


def _trials(suites: ElementTree.Element, examples: dict[str, int]) -> Iterator[Trial]:
    """Yield a trial for each test that ran, and for each example of a property."""
    for case in suites.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        name = case.get("name", "")
        broken = case.find("failure") if case.find("failure") is not None else case.find("error")
        if broken is not None:
            yield Trial(name, (broken.get("message") or "it failed").splitlines()[0])
            continue
        for number in range(examples.get(name, 1)):
            yield Trial(f"{name}, {number}" if name in examples else name)
