"""How a model is trained, from its settings to its report: the whole story of `train`, `finetune`, `pretrain` and
`distill`.

What only some of them do is in their recipe (`Recipe`), whose five moments are called here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from encoderlab.config.commands import RunConfig
from encoderlab.models.pretrained import shape_for, tokenizer_for
from encoderlab.reports.facts import show_survey
from encoderlab.runs.build_model import (
    build_model,
    check_settings,
    choose_token_rows,
    compile_if_it_pays,
    compute_for,
    gather_facts,
    micro_batch_count,
    rows_for,
)
from encoderlab.runs.dry_run import estimate
from encoderlab.runs.finish import finish
from encoderlab.runs.fit import Result
from encoderlab.runs.fit_branch import check_linear_weight, fit_linear
from encoderlab.runs.load_data import load_data, splits_to_score, tokenize
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe
from encoderlab.runs.resume import Beginning, begin
from encoderlab.runs.run import Run
from encoderlab.runs.scoring import score
from encoderlab.runs.settle import settle
from encoderlab.runs.speed import with_fastest_choice
from encoderlab.runs.start_language import training_languages
from encoderlab.runs.tracking import track
from encoderlab.runs.training import Training
from encoderlab.system.device import return_freed_memory
from encoderlab.system.processes import Processes
from encoderlab.training.occurring_rows import put_back_rows


def run_training(config: RunConfig, processes: Processes, recipe: Callable[[], Recipe] = Recipe) -> Run | None:
    """Train a model, or one for each fold, and hand the run to its tracker; None for a dry run.

    Anything invalid is refused before the run's folder is created. The `processes` share the work. Each model has a
    `recipe` of its own. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    # A new run, or one that continues with the settings it began with.
    beginning = begin(config, processes)
    if beginning.config.folds is None:
        run = train_once(beginning, processes, recipe())
    else:
        from encoderlab.runs.folds import cross_validate

        def train_fold(fold: RunConfig, processes: Processes) -> Run | None:
            return train_once(begin(fold, processes), processes, recipe())

        run = cross_validate(beginning, processes, train_fold, is_dry=config.dry_run)

    # The run is complete, whatever happens to a tracker. The runs of folds are not handed over.
    if run is not None and processes.is_main:
        track(run)
    return run


def train_once(beginning: Beginning, processes: Processes, recipe: Recipe) -> Run | None:
    """Train the model on one split of the rows, score it, and write its run folder; return None for a dry run."""
    # Everything that is read, refused or decided before the first step.
    prepared = prepare(beginning, processes, recipe)
    if beginning.config.dry_run:
        estimate(prepared.training, prepared.rows)
        return None

    # From here on there is a run folder. It is complete when it has a report.
    with prepared.open_run() as run:
        prepared.announce(run)

        # The steps, and the weights that are kept.
        result = fit_with(recipe, prepared, run)

        # A linear model beside the network, where both together are better; and the scores of what is kept.
        model = prepared.model
        linear = fit_linear(model, prepared.data, result.out_of_fold, prepared.training.label_weights)
        scored = score(model, prepared.rows, linear)

        # The model's folder, the baselines and the report, which may take longer than other processes would wait.
        processes.leave()
        if processes.is_main:
            finish(run, prepared, scored, result)
    return run


def prepare(beginning: Beginning, processes: Processes, recipe: Recipe, *, scored: bool = True) -> PreparedRun:
    """Read the data and the weights to start from, settle every open setting, and build the model and its rows.

    Unless a split is to be `scored`, none needs to have labels. Raises SettingError or DataError, each with a remedy,
    for anything that does not fit together or this machine.
    """
    requested = beginning.config
    check_settings(requested, processes)

    # 1. The weights to start from are read first, so that what does not match them is refused at once.
    start = recipe.start(requested, processes)
    start_shape = shape_for(requested.task, start.encoder)
    if start.encoder is None and start.teacher is None:
        requested.tokenizer.refuse_without_encoder()

    # The main process reads and tokenises, and the others find its work in the cache: they enter once it has left, so
    # nothing in here may wait for them.
    with processes.main_process_first():
        # 2. Labelled rows or documents, each read once.
        data = load_data(requested, scored=scored)
        names = splits_to_score(requested, data, scored=scored)
        check_linear_weight(requested.task, data)
        if data.survey is not None:
            show_survey(data.description()["splits"])
        recipe.check(data)

        # 3. Their ids, made by one tokenizer.
        tokenizer = tokenizer_for(requested, data, start.encoder, start.teacher)
        tokens = tokenize(data, tokenizer, ["train", *names], requested)

        # 4. Every open setting is decided here, from facts alone. Whoever decides something prints its note; `notes`
        # collects them for the report.
        compute = compute_for(beginning, start_shape, processes)
        is_tested = bool(names) or not scored
        facts = gather_facts(tokens, start_shape, start.teacher, compute, processes, is_tested=is_tested)
        config, notes = settle(requested, facts)

        # 5. The model, and the rows as it reads them.
        model, label_weights = build_model(config, data, tokenizer, start.encoder, compute, processes)
        rows, data_notes = rows_for(model, tokens)
        languages = training_languages(config, data)
    foreign = "" if languages is None else languages.note(config.starts_from or "")
    for note in (*notes, *data_notes, *([foreign] if foreign else [])):
        print(note, file=sys.stderr)
    training = Training(model, rows["train"], rows.get("validation"), label_weights)
    prepared = PreparedRun(beginning, data, rows, training, notes, data_notes, {**start.fingerprints}, languages)

    # 6. What a teacher, or texts that nobody has labelled, add to the rows.
    recipe.rows(prepared, start)

    # 7. How the steps are computed: in how many micro-batches, of which rows of the token table, and by which precision
    # and threads. These are tried in real steps, which leave nothing behind.
    training.micro_batches = micro_batch_count(config, beginning, processes)
    training.token_rows = choose_token_rows(training)
    model.compute = with_fastest_choice(training, resumed=beginning.record is not None)

    # 8. What a recipe sets before the first step, such as a head that starts at a linear model.
    if not config.dry_run:
        recipe.before_first_step(prepared)
    training.compiled = compile_if_it_pays(training)

    # A resumed run has decided nothing: its report repeats what was decided when it began.
    own_loss = config.task.own_functions().get("task.loss")
    if own_loss is not None:
        prepared.notes.append(f"The loss is {own_loss.dotted}: {own_loss.about}")
    prepared.notes = beginning.notes or prepared.notes
    return prepared


def fit_with(recipe: Recipe, prepared: PreparedRun, run: Run) -> Result:
    """Train the model by its recipe; put back the rows of its token table that were not trained."""
    result = recipe.fit(prepared, run)

    # Gradients and moments are no longer needed, and a large table needs their memory.
    gc.collect()
    return_freed_memory()
    put_back_rows(prepared.model.network)
    return result
