"""The command line of the benchmarks: run, gpu, suite, few, select, unlabelled, unlike, drift."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import gpu
from benchmarks.comparing import Settings, run_job, why_skipped
from benchmarks.few_peer import PEERS
from benchmarks.few_rows import FEW_SETS, MINILM, ROWS, few_rows
from benchmarks.jobs import JOBS
from benchmarks.linear import LINEAR_SETS, linear
from benchmarks.processes import ROOT, checked, cores
from benchmarks.selecting import ROUNDS, SELECT_SETS, selecting, selecting_and_finetuning
from benchmarks.suite import KINDS, SETS, suite
from benchmarks.unlabelled import FEWEST_ROWS, UNLABELLED_SETS, unlabelled_texts
from benchmarks.unlike import DRIFT_SETS, UNLIKE_SETS, drifting, unlike
from encoderlab.errors import DataError, SettingError, TrainingError, UserError

# The folder below outputs/ of each command that compares methods on the sets of the suite.
OUTPUTS = {"few": "few", "select": "select", "unlabelled": "select", "unlike": "unlike", "drift": "select"}


def main() -> None:
    """Run the typed command and exit with its code; a user's mistake is one line."""
    options = _parser().parse_args()
    try:
        options.command(options)
    except UserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("benchmarks: stopped", file=sys.stderr)
        sys.exit(130)


def run(options: argparse.Namespace) -> None:
    """Run jobs and print the table of each. Raises SettingError, DataError, TrainingError."""
    settings = Settings(options.rounds, options.threads, options.shared.expanduser().resolve(), options.small)
    done = 0
    failed = 0
    for name in checked("job", options.names, JOBS):
        reason = why_skipped(name, settings)
        if reason:
            print(f"benchmarks: {name} is skipped: {reason}", file=sys.stderr)
            continue
        print(f"{name}: {JOBS[name].what}", file=sys.stderr)
        try:
            print(f"\n## {name}\n\n{run_job(name, settings)}\n", flush=True)
            done += 1
        except TrainingError as error:
            print(f"benchmarks: {name}: {error}", file=sys.stderr)
            failed += 1
    if failed:
        raise TrainingError("Not every job could be finished", remedy="See the lines above")
    if not done:
        raise DataError("No job could be run", remedy="See the lines above")


def measure_gpu(options: argparse.Namespace) -> None:
    """Measure on a CUDA GPU, or say that there is none. Raises SettingError, TrainingError."""
    names = checked("scale", options.names, gpu.SCALES)
    import torch

    if options.device == "cpu" and not options.small:
        raise SettingError("--device cpu only serves to try out the script", remedy="Add --small")
    if options.device == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA GPU on this machine: nothing is measured")
        return
    tables, failed = gpu.measure(names, options.device, options.minutes, small=options.small)
    print(f"\n{tables}\n")
    if failed:
        raise TrainingError(f"Failed rows or checks: {'; '.join(failed)}", remedy="See the tables above")


def run_suite(options: argparse.Namespace) -> None:
    """Run the development suite. Raises SettingError, DataError, TrainingError."""
    suite(options.words)


def run_few(options: argparse.Namespace) -> None:
    """Compare methods on few rows of the suite's sets. Raises SettingError, TrainingError."""
    sets = checked("set", options.names, FEW_SETS)
    peers = dict(peer.partition("=")[::2] for peer in options.peers)
    checked("peer", list(peers), (*PEERS, MINILM))
    few_rows(options.suite, options.output, sets, options.rows, options.seeds, peers, options.plot)


def run_select(options: argparse.Namespace) -> None:
    """Compare ways to choose which texts to label. Raises SettingError, TrainingError."""
    sets = checked("set", options.names, SELECT_SETS)
    common = (options.suite, options.output, sets, options.draws, options.split)
    if options.finetune is None:
        selecting(*common)
    else:
        selecting_and_finetuning(*common, options.finetune)


def run_unlabelled(options: argparse.Namespace) -> None:
    """Measure what unlabelled texts and the names of labels add to few labels. Raises SettingError."""
    sets = checked("set", options.names, UNLABELLED_SETS)
    unlabelled_texts(options.suite, options.output, sets, options.rows, options.draws, options.split)


def run_unlike(options: argparse.Namespace) -> None:
    """Compare scores by which texts without a label are told. Raises SettingError, TrainingError."""
    unlike(options.suite, options.output, checked("set", options.names, UNLIKE_SETS), options.split)


def run_drift(options: argparse.Namespace) -> None:
    """Count how often changed texts are found, and unchanged ones. Raises SettingError."""
    drifting(options.suite, options.output, checked("set", options.names, DRIFT_SETS), options.trials)


def run_linear(options: argparse.Namespace) -> None:
    """Compare the linear baseline with lines that a person would write. Raises SettingError."""
    linear(options.suite, checked("set", options.names, LINEAR_SETS), options.split)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure encoderlab against the alternatives.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, does, command, names in (
        ("run", "run jobs, ours and the peers in turn", run, JOBS),
        ("gpu", "check and measure pretraining on a CUDA GPU", measure_gpu, gpu.SCALES),
        ("suite", "compare ways to get a model on the development suite", run_suite, None),
        ("few", "finetune on 8, 32, 128 and all rows per label of the suite's sets", run_few, FEW_SETS),
        ("select", "choose texts to label on the suite's sets, at random and otherwise", run_select, SELECT_SETS),
        ("unlabelled", "add unlabelled texts and the names of labels to few labels", run_unlabelled, UNLABELLED_SETS),
        ("unlike", "tell texts with none of a model's labels, by several scores", run_unlike, UNLIKE_SETS),
        ("linear", "compare the linear baseline with lines that a person would write", run_linear, LINEAR_SETS),
        ("drift", "find that texts have changed, and that they have not", run_drift, DRIFT_SETS),
    ):
        one = commands.add_parser(name, help=does, description=does)
        one.set_defaults(command=command)
        if names is not None:
            one.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(names)}")
        if name in ("run", "gpu"):
            one.add_argument("--small", action="store_true", help="a few small steps, to check that everything works")
        if name == "run":
            one.add_argument("--threads", type=int, default=cores(), help="CPU threads (default: all, %(default)s)")
            shared = Path(os.environ.get("ENCODERLAB_SHARED", ROOT.parent / "shared"))
            one.add_argument("--rounds", type=int, default=5, help="how often each side is run (default: 5)")
            one.add_argument("--shared", type=Path, default=shared, help="folder of the peers' scripts (../shared)")
        if name == "gpu":
            one.add_argument("--minutes", type=float, default=8.0, help="time for everything (default: 8)")
            one.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cuda, or with --small cpu")
        if name in OUTPUTS or name == "linear":
            _add_options_of_comparison(name, one)
        if name == "suite":
            choices = f"sets={','.join(SETS)} kinds={','.join(KINDS)} seeds=0,1,2"
            folders = "suite=FOLDER (of the data; default: $ENCODERLAB_SUITE) output=FOLDER (of the runs)"
            more = f"{choices} {folders}; names with a dot, such as training.precision=fp32, are added to every run"
            one.add_argument("words", nargs="*", metavar="NAME=VALUE", help=more)
    return parser


def _add_options_of_comparison(name: str, one: argparse.ArgumentParser) -> None:
    """Add the options of a command that compares methods on the sets of the suite."""
    suite_folder = Path(os.environ.get("ENCODERLAB_SUITE", ROOT.parent / "shared" / "suite"))
    one.add_argument("--suite", type=Path, default=suite_folder, help="folder of the data (../shared/suite)")
    if name in OUTPUTS:
        output = Path("outputs") / OUTPUTS[name]
        one.add_argument("--output", type=Path, default=output, help="folder of the runs or vectors")
    if name in ("select", "unlabelled"):
        one.add_argument("--draws", type=int, default=5, help="how often (default: 5)")
    if name in ("select", "unlabelled", "unlike", "linear"):
        choices = ("validation", "test")
        one.add_argument("--split", choices=choices, default="test", help="scored (default: test)")
    if name == "few":
        one.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS, help="rows per label (default: all four)")
        one.add_argument("--seeds", nargs="+", default=("0", "1", "2"), help="seeds (default: 0 1 2)")
        peers = f"what others use, with the folder of its model: {', '.join((*PEERS, MINILM))}"
        one.add_argument("--peers", nargs="*", default=(), metavar="NAME=FOLDER", help=peers)
        one.add_argument("--plot", type=Path, default=ROOT / "docs" / "images" / "few_rows.png", help="the curve")
    if name == "select":
        rounds = range(1, ROUNDS + 1)
        one.add_argument("--finetune", type=int, choices=rounds, help="finetune after so many rounds")
    if name == "unlabelled":
        some = " ".join(map(str, FEWEST_ROWS))
        one.add_argument("--rows", nargs="+", type=int, default=FEWEST_ROWS, help=f"per label (default: {some})")
    if name == "drift":
        one.add_argument("--trials", type=int, default=100, help="how often (default: 100)")


if __name__ == "__main__":
    main()
