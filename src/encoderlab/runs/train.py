"""The training pipeline that `train`, `finetune`, `pretrain` and `distill` share, from settings to report.

What only some of them do is in a recipe (`Recipe`), which overrides five moments: four in `prepare`, and the fit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from encoderlab.config.commands import RunConfig
from encoderlab.models.pretrained import shape_for, tokenizer_for
from encoderlab.reports.facts import show_survey
from encoderlab.reports.training import show_pairs
from encoderlab.runs.build_model import build_model, gather_facts
from encoderlab.runs.computing import compile_if_it_pays, compute_for, decide_how_to_compute
from encoderlab.runs.dry_run import estimate
from encoderlab.runs.finish import finish
from encoderlab.runs.fit_branch import check_linear_weight, fit_linear
from encoderlab.runs.load_data import load_data, splits_to_score, tokenize
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe
from encoderlab.runs.requested import RequestedRun, check_request, requested_run
from encoderlab.runs.run import Run
from encoderlab.runs.scoring import score
from encoderlab.runs.settle import settle
from encoderlab.runs.start_language import training_languages
from encoderlab.runs.tracking import track
from encoderlab.runs.training import Training
from encoderlab.system.device import return_freed_memory
from encoderlab.system.processes import Processes
from encoderlab.training.occurring_rows import put_back_rows


def run_training(config: RunConfig, processes: Processes, recipe_for: Callable[[RunConfig], Recipe]) -> Run | None:
    """Train a model, or one for each fold, and hand the run to its tracker; None for a dry run.

    Anything invalid is refused before the run's folder is created. The `processes` share the work. `recipe_for` makes
    the recipe of each model from its settings, because a run that is resumed brings its own. Raises SettingError,
    DataError or TrainingError, each with a remedy.
    """
    # A new run, or one that is resumed with the settings it began with.
    requested = requested_run(config, processes)
    if requested.config.folds is None:
        run = train_once(requested, processes, recipe_for(requested.config))
    else:
        from encoderlab.runs.folds import cross_validate

        def train_fold(fold: RunConfig, processes: Processes) -> Run | None:
            of_fold = requested_run(fold, processes)
            return train_once(of_fold, processes, recipe_for(of_fold.config))

        run = cross_validate(requested, processes, train_fold, is_dry=config.dry_run)

    # The run is complete, whatever happens to a tracker. The runs of folds are not handed over.
    if run is not None and processes.is_main:
        track(run)
    return run


def train_once(requested: RequestedRun, processes: Processes, recipe: Recipe) -> Run | None:
    """Train the model on one split of the rows, score it, and write its run folder; return None for a dry run."""
    # Everything that is read, refused or decided before the first step.
    prepared = prepare(requested, processes, recipe)
    if requested.config.dry_run:
        estimate(prepared.training, prepared.rows)
        return None

    # From here on there is a run folder. It is complete when it has a report.
    with prepared.open_run() as run:
        prepared.announce(run)

        # The steps, and the weights that are kept.
        result = recipe.fit(prepared, run)

        # A linear model beside the network, where both together are better; and the scores of what is kept.
        model = prepared.model
        linear = fit_linear(model, prepared.data, result.out_of_fold, prepared.training.label_weights)
        return_freed_memory()
        scored = score(model, prepared.rows, linear)

        # The model's folder, the baselines and the report, which may take longer than other processes would wait.
        return_freed_memory()
        put_back_rows(model.network)
        processes.leave()
        if processes.is_main:
            finish(run, prepared, scored, result)
    return run


def prepare(requested: RequestedRun, processes: Processes, recipe: Recipe, *, scored: bool = True) -> PreparedRun:
    """Read the data and the weights to start from, settle every open setting, and build the model and its rows.

    Unless a split is to be `scored`, none needs to have labels. Raises SettingError or DataError, each with a remedy,
    for anything that does not fit together or this machine.
    """
    typed = requested.config
    check_request(typed, processes)

    # 1. The weights to start from are read first, so that what does not match them is refused at once.
    start = recipe.start(typed, processes)
    start_shape = shape_for(typed.task, start.encoder)
    if start.encoder is None and start.teacher is None:
        typed.tokenizer.refuse_without_encoder()

    # The main process reads and tokenises, and the others find its work in the cache: they enter once it has left, so
    # nothing in here may wait for them.
    with processes.main_process_first():
        # 2. Labelled rows or documents, each read once.
        data = load_data(typed, scored=scored)
        split_names = splits_to_score(typed, data, scored=scored)
        check_linear_weight(typed.task, data)
        if data.survey is not None:
            show_survey(data.description()["splits"])
        recipe.check(data)

        # 3. Their ids, made by one tokenizer.
        tokenizer = tokenizer_for(typed, data, start.encoder, start.teacher)
        tokens = tokenize(data, tokenizer, ["train", *split_names], typed)

        # 4. The settings that are still open, from facts alone.
        compute = compute_for(requested, start_shape, processes)
        is_tested = bool(split_names) or not scored
        facts = gather_facts(tokens, start_shape, start.teacher, compute, processes, is_tested=is_tested)
        config, notes = settle(typed, facts)

        # 5. The model, and the rows as it reads them.
        model, label_weights = build_model(config, data, tokenizer, start.encoder, compute, processes)
        read = tokens.read_by(model.task)
        if read.pairs is not None and config.task.command == "pretrain":
            show_pairs(read.pairs, {})
        languages = training_languages(config, data)
    if languages is not None and languages.warning:
        read.notes.append(languages.warning)
    for note in (*notes, *read.notes):
        print(note, file=sys.stderr)
    rows = read.by_split
    training = Training(model, rows["train"], rows.get("validation"), label_weights)
    fingerprints = dict(start.fingerprints)  # to which a recipe adds
    prepared = PreparedRun(requested, data, rows, training, notes, read.notes, read.pairs, fingerprints, languages)

    # 6. What a teacher, or texts that nobody has labelled, add to the training rows.
    recipe.extend_rows(prepared, start)

    # 7. How the steps are computed: in how many micro-batches, with which rows of the token table, in which precision
    # and by how many threads. The last two are tried in real steps, which leave nothing behind.
    decide_how_to_compute(training, requested)

    # 8. What a recipe sets before the first step of the run, such as a head that starts at a linear model.
    if not config.dry_run:
        recipe.before_first_step(prepared)

    # 9. The encoder is compiled last, because nothing that came before takes long enough to pay for it.
    training.compilation = compile_if_it_pays(training)

    prepared.complete_notes()
    return prepared
