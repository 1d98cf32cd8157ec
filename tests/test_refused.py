"""What encoderlab refuses: one short message that names the mistake, the right exit code, and nothing written.

A row is a command line, its exit code (2: a setting, 3: data, 4: training), and a fragment that the message must
contain: the name or value of what is wrong, or of what was probably meant; nothing else of its wording. `{brackets}`
and the like in a command line are the folders of finished runs: fixtures in conftest.py. FILES are in the folder where
each command line runs.
"""

import re
import shlex

import pytest

from encoderlab.cli import main as cli
from encoderlab.errors import UserError

SETTING, DATA, TRAINING = 2, 3, 4
RUNS = {"brackets": "brackets_run", "reverse": "reverse_run", "pairs": "pairs_run"}
FILES = {
    "reviews.csv": "review,stars\nwarm and wise,5\ncold and long,1\n" * 20,
    "tickets.csv": "id,comment,done,month,outcome\n"
    + "".join(f"{n},ticket {n} is late,{n % 5 > 2},{('may', 'june')[n % 2]},{'abc'[n % 3]}\n" for n in range(60)),
    "graded.csv": "id,comment,score,reviewLabel\n"
    + "".join(f"{n},ticket {n} is late,{n % 2},{'abc'[n % 3]}\n" for n in range(60)),
    "texts.txt": "warm and wise\ncold and long\n",
    "latin.txt": b"fine\ncaf\xe9\n",
    "empty.txt": "",
    "broken.csv": 'text,label\n"warm and "wise,\n',
    "full/precious": "",
    "full.png": "",
    "folder.png/precious": "",
    "mine/model/wide.yaml": "defaults: [model_schema, _self_]\nd_modell: 6\n",
    "mine/model/wordy.yaml": "n_layers: many\ndefaults: [model_schema, _self_]\n",
    "mine/primary.yaml": "seed: 3\n",
    "mine/task/bare.yaml": "name: tickets\n",
    "mine/task/weighted.yaml": "name: tickets\nclass_weights: balanced\n",
    "mine/task/misspelt.yaml": "defaults: [clasification_schema, _self_]\nname: tickets\n",
    "mine/dataset/own.yaml": "path: reviews.csv\nlable: stars\ntext: review\n",
    "mine/model/broken.yaml": "d_model: [\n",
}
OWN = "task=classification dataset=files dataset.path=reviews.csv dataset.text=review dataset.label=stars"

CLI = [
    ("trian", SETTING, "encoderlab train"),
    ("dance", SETTING, "dance"),
    ("list modle", SETTING, "encoderlab list model"),
    ("train model.n_layer=2", SETTING, "model.n_layers"),
    ("train +model.n_layer=2", SETTING, "model.n_layers"),
    ("train ++model.n_layer=2", SETTING, "model.n_layers"),
    ("train +training.epoch=2", SETTING, "training.epochs"),
    ("train ~model.n_layer", SETTING, "model.n_layer"),
    ("train sed=1", SETTING, "seed"),
    ("train +xyzzy=1", SETTING, "xyzzy"),
    ("train training=smoke model=tiny task.class_weights=5", SETTING, "task.class_weights is 5"),
    (f"train {OWN.replace('classification', 'multilabel')} task.thresholds=0.5", SETTING, "task.thresholds is 0.5"),
    (f"train {OWN} task.thresholds=0.5", SETTING, "task.thresholds is 0.5"),
    (f"train {OWN} task.thresholds={{{{5:2}}}}", SETTING, "task.thresholds.5 is 2"),
    (f"train {OWN} task.thresholds={{{{5:0.5}}}} task.threshold=f1", SETTING, "both set"),
    ("eval run={brackets} allowed_drop=0.1", SETTING, "against"),
    ("eval run={brackets} against={pairs}", SETTING, "against"),
    ("eval run={brackets} against=mini-en", SETTING, "encoder without a head"),
    ("train hydra/sweeper=optuna -m seed=1,2", SETTING, "trials=N"),
    ("train modell=tiny", SETTING, "model"),
    ("train +trainig.epochs=1", SETTING, "training.epochs"),
    ("train training.lr=1", SETTING, "training.learning_rate"),
    ("train lr=1", SETTING, "training.learning_rate"),
    ("train model.hidden_size=128", SETTING, "model.d_model"),
    ("train epochs=3", SETTING, "training.epochs"),
    ("train path=reviews.csv", SETTING, "dataset.path"),
    ("train n_layers=2", SETTING, "model.n_layers"),
    ("train training.max_length=64", SETTING, "model.max_length"),
    ("train dataset.path=reviews.csv", SETTING, "dataset=files"),
    ("train training.epochs=-1", SETTING, "training.epochs"),
    ("train training.freeze_layers=some", SETTING, "training.freeze_layers is some"),
    ("train training.freeze_layers=-1", SETTING, "training.freeze_layers is -1"),
    ("train training.learning_rate=nan", SETTING, "training.learning_rate"),
    ("train training.weight_decay=inf", SETTING, "training.weight_decay"),
    ("train training.epochs=many", SETTING, "training.epochs=many"),
    ("train training.batch_size=1.5", SETTING, "training.batch_size=1.5"),
    ("train baselines=perhaps", SETTING, "baselines=perhaps"),
    ("train training.schedule=zigzag", SETTING, "one_cycle"),
    ("train training.schedule=lineer", SETTING, "linear"),
    ("train model.d_model=100 model.n_heads=3", SETTING, "model.n_heads=3"),
    ("train task=sst_2", SETTING, "task=sst2"),
    ("train model=huge", SETTING, "huge"),
    ("train experiment=notebook_sst", SETTING, "notebook_sst2"),
    ("train task=classification", SETTING, "dataset=files"),
    ("train dataset=hub", SETTING, "dataset.path"),
    ("train model=", SETTING, "model= names no config"),
    ("train task=", SETTING, "task= names no config"),
    ("train task=pretraining", SETTING, "Run encoderlab pretrain"),
    ("train seed=1,2", SETTING, "-m"),
    ("train seed=-1", SETTING, "seed"),
    ("train hydra.nonsense=1", SETTING, "hydra.nonsense"),
    ("train model.n_layers", SETTING, "model.n_layers"),
    ("train --confg job", SETTING, "--confg"),
    ("train --seed=3", SETTING, "seed=3"),
    ("train --config-dir nowhere", SETTING, "nowhere"),
    ("train --cfg job model.n_layer=2", SETTING, "model.n_layers"),
    ("train --cfg job +model.n_layer=2", SETTING, "model.n_layers"),
    ("finetune dataset=reviews.csv", SETTING, "dataset.path=reviews.csv"),
    ("finetune tickets.csv", DATA, "Set dataset.label=outcome"),
    ("finetune graded.csv", DATA, "Set dataset.label=reviewLabel"),
    ("predict reviews.csv", SETTING, "run="),
    ("predict run={brackets} text=warm text=cold", SETTING, "text='cold'"),
    ("train task.score=mine.kappa", SETTING, "mean mine:kappa"),
    ("train task.loss=my.own.loss", SETTING, "mean my.own:loss"),
    ("predict full", DATA, "run=full"),
    ("predict text=a", SETTING, "run"),
    ("predict run=x dataset.encoding=utf-8", SETTING, "encoding"),
    ("eval splt=test", SETTING, "split"),
    ("eval run=x dataset.text=review", SETTING, "dataset=files"),
    ("attention rows=first run=x", SETTING, "rows=first"),
    ("baseline task=pretraining", SETTING, "task=pretraining"),
    ("baseline task=tagging dataset=intents", DATA, "Use task=classification"),
    ("baseline split=dev", DATA, "split=dev"),
    ("train folds=3 dataset.fold=1 task=brackets", SETTING, "dataset.fold"),
    ("pretrain folds=3", SETTING, "folds=3"),
    ("distill task=intents teacher=x folds=5", SETTING, "folds=5"),
    ("distill teacher=mini-en task=wikipedia", SETTING, "task=wikipedia"),
    ("distill task=stsb teacher=mini-en", SETTING, "encoderlab finetune"),
    ("train dry_run=true resume=auto", SETTING, "dry_run"),
    ("train run_dir=full", SETTING, "full"),
    ("train run_dir=reviews.csv", SETTING, "reviews.csv"),
    ("train resume=full", DATA, "full"),
    ("train resume=nowhere", DATA, "nowhere"),
    ("train resume={brackets}", SETTING, "finished"),
    ("finetune resume={brackets}", SETTING, "encoderlab train"),
    ("train config=nowhere", DATA, "nowhere"),
    ("train --experimental-rerun config.pickle", SETTING, "config=FOLDER"),
    ("train config=full", DATA, "full"),
    ("finetune config={brackets} seed=2", SETTING, "Run encoderlab train config="),
    ("train config={brackets} experiment=sst2", SETTING, "experiment=sst2"),
    ("train config={brackets} model.n_layer=2", SETTING, "model.n_layers"),
    ("train --config-dir {brackets} --config-name config", SETTING, "run encoderlab train config="),
    ("train --config-dir mine --config-name primary", SETTING, "mine/primary.yaml"),
    ("train sweep_dir=new", SETTING, "-m"),
    ("train -m sweep_dir=full seed=1,2", SETTING, "full"),
    ("train -m trials=some seed=1,2", SETTING, "trials=some"),
    ("train -m training.epochs=-1,-2", SETTING, "training.epochs"),
    ("train -m trials=3 task=brackets", SETTING, "trials"),
    ("train -m trials=2 sweep=seeds seed=1,2", SETTING, "sweep=seeds"),
    ("train -m trials=2 'training.learning_rate=log(0,1)'", SETTING, "training.learning_rate"),
    ("predict -m trials=2 run={brackets} text=a threads=1,2", SETTING, "train"),
    ("train hydra.run.dir=new", SETTING, "run_dir=..."),
    ("train -cn nowhere", SETTING, "experiment=NAME"),
    ("finetune nowhere.csv", SETTING, "nowhere.csv"),
    ("train --config-dir mine model=wide", SETTING, "mine/model/wide.yaml, line 2: There is no setting model.d_modell"),
    ("train --config-dir mine model=wordy", SETTING, "mine/model/wordy.yaml, line 1"),
    ("train --config-dir mine model=broken", SETTING, "broken"),
    (
        f"train --config-dir mine {OWN.replace('classification', 'weighted')}",
        SETTING,
        "[classification_schema, _self_]",
    ),
    (f"train --config-dir mine {OWN.replace('classification', 'bare')} +task.foo=1", SETTING, "classification_schema"),
    (f"train --config-dir mine {OWN.replace('classification', 'misspelt')}", SETTING, "mean classification_schema"),
    ("train --config-dir mine dataset=own task=classification", SETTING, "[files_schema, _self_]"),
    (f"train --config-dir mine {OWN.replace('classification', 'bare')}", SETTING, "classification_schema"),
    ("train -m trials=3 dry_run=true seed=1,2", SETTING, "dry_run"),
    (f"train {OWN} folds=5 dataset.test_fraction=0.2", SETTING, "dataset.test_fraction=0.2"),
    ("train -m 'training.learning_rate=log(1e-4,1e-2)'", SETTING, "trials"),
]

ROWS = [
    ("finetune texts.txt", DATA, "dataset.format=conll"),
    ("train task=classification dataset=files", SETTING, "dataset.path"),
    ("train task=classification dataset=files dataset.path=nowhere.csv", DATA, "nowhere.csv"),
    (f"train {OWN} dataset.text=revew", DATA, "dataset.text=review"),
    (f"data {OWN.replace('classification', 'tagging')} dataset.validation_fraction=0", DATA, "task=classification"),
    (f"data {OWN} dataset.validation_fraction=0 model.max_length=4", SETTING, "model.max_length=4"),
]

DOCUMENTS = [
    ("pretrain training.steps=5 training.budget=2s", SETTING, "training.budget=2s"),
    ("pretrain dataset=files dataset.path=texts.txt dataset.streaming=true", SETTING, "training.steps"),
    ("data task=pretraining dataset=articles", SETTING, "encoderlab pretrain"),
    ("pretrain task=sst2", SETTING, "encoderlab train task=sst2"),
    ("pretrain task=contrastive init_from=null model=tiny tokenizer=wordpiece", SETTING, "init_from=mini-en"),
    ("pretrain task=contrastive training.accumulate=3 init_from=mini-en", SETTING, "task.compared_rows"),
    ("train task=contrastive", SETTING, "encoderlab pretrain"),
    ("data task=contrastive", SETTING, "task=contrastive"),
    ("pretrain dataset=brackets", DATA, "no documents"),
    ("pretrain training.budget=soon", SETTING, "training.budget=soon"),
    ("pretrain tokenizer=as_pretrained", SETTING, "init_from"),
    ("pretrain model=as_pretrained", SETTING, "init_from"),
]

REPORTS = [
    ("compare nowhere", DATA, "nowhere"),
    ("compare", SETTING, "encoderlab compare FOLDER FOLDER"),
    ("compare {brackets} output=t.xlsx", SETTING, "t.xlsx"),
]

TRAIN = [
    (f"train {OWN} folds=1", SETTING, "folds"),
    (f"train {OWN} folds=31", DATA, "folds=31"),
    ("finetune task=brackets init_from={brackets} model=tiny", SETTING, "model=as_pretrained"),
    ("finetune task=pretraining dataset=articles", SETTING, "encoderlab pretrain"),
    ("finetune training.layer_decay=0", SETTING, "training.layer_decay"),
    ("train model=as_pretrained", SETTING, "init_from"),
    ("train training.device=abacus", SETTING, "training.device=abacus"),
    ("finetune init_from=null", SETTING, "init_from"),
]

USING = [
    ("predict run={brackets} text=a output=/dev/null/out.csv", DATA, "output=/dev/null/out.csv"),
    ("predict run={brackets} text=a input=texts.txt", SETTING, "text and input"),
    ("predict run={brackets} text_pair=a", SETTING, "text_pair"),
    ("predict run={brackets} text=a format=parquet", SETTING, "output=FILE.parquet"),
    ("predict run={brackets} input=missing.csv", DATA, "missing.csv"),
    ("predict run={brackets} split=tset", DATA, "train, validation, test"),
    ("predict run={brackets} text=a output=out.tsv", SETTING, ".tsv"),
    ("embed output=out.csv", SETTING, "output=out.csv"),
    ("embed run={brackets} output=out.npy input=empty.txt", DATA, "empty.txt"),
    ("embed run={brackets} output=out.npy input=latin.txt encoding=utf-8", DATA, "latin.txt"),
    ("select", SETTING, "input"),
    ("select texts.txt n=0", SETTING, "n is 0"),
    ("select texts.txt output=out.tsv", SETTING, ".tsv"),
    ("select texts.txt output=full/precious", SETTING, "overwrite=true"),
    ("select texts.txt format=xlsx", SETTING, "output=FILE.xlsx"),
    ("select texts.txt run={reverse}", SETTING, "run=/"),
    ("select texts.txt run={pairs}", DATA, "texts.txt"),
    ("select texts.txt label_column=text", SETTING, "label_column"),
    ("select texts.txt label_column=selected", SETTING, "label_column"),
    ("select texts.txt labelled=texts.txt", DATA, "'label'"),
    ("select texts.txt labelled=missing.csv", DATA, "missing.csv"),
    ("select reviews.csv", DATA, "'stars'"),
    ("select broken.csv", DATA, "set quoting=literal"),
    ("select empty.txt", DATA, "empty.txt"),
    ("label", SETTING, "input"),
    ("label texts.txt port=0", SETTING, "labels=[NAME,NAME]"),
    ("label texts.txt labels=[a,b] port=70000", SETTING, "port is 70000"),
    ("label texts.txt labels=[a,a]", SETTING, "'a' twice"),
    ("label texts.txt \"labels=[a,' ']\"", SETTING, "labels has ' '"),
    ("label texts.txt labels=[a,b] n=0", SETTING, "n is 0"),
    ("label texts.txt labels=[a,b] output=out.tsv", SETTING, ".tsv"),
    ("label texts.txt labels=[a,b] output=full/precious", SETTING, "output=full/precious already exists"),
    ("label texts.txt labels=[a,b] output=texts.txt", SETTING, "output=texts.txt already exists"),
    ("label texts.txt labels=[a,b] output=nowhere/out.csv port=0", SETTING, "nowhere"),
    ("label texts.txt labels=[a,b] run={reverse} port=0", SETTING, "run=/"),
    ("label input=missing.csv labels=[a,b] port=0", DATA, "missing.csv"),
    ("label reviews.csv labels=[a,b] label_column=review port=0", SETTING, "label_column"),
    ("label empty.txt labels=[a,b] port=0", DATA, "empty.txt"),
    ("explain run={brackets} text=( label=vald", SETTING, "vald"),
    ("explain run={brackets} text=( rows=[0]", SETTING, "text is given together"),
    ("attention run={brackets} text_pair=(", SETTING, "text_pair"),
    ("attention run={brackets} rows=[300]", DATA, "300"),
    ("export run={brackets} path=there license='My Own'", SETTING, "My Own"),
    ("export run={brackets} path=there format=web library=nowhere", SETTING, "npm install"),
    ("data run={brackets} texts.txt plot=drift.pdf", SETTING, "plot=drift.pdf"),
    ("data run={brackets} texts.txt plot=nowhere/drift.png", SETTING, "plot=nowhere/drift.png"),
    ("data run={brackets} texts.txt plot=full.png", SETTING, "overwrite=true"),
    ("data run={brackets} texts.txt plot=folder.png overwrite=true", SETTING, "folder.png"),
    ("data texts.txt plot=drift.png", SETTING, "run="),
    ("predict run=nowhere text=a", DATA, "nowhere"),
    ("eval run=.", DATA, "run=."),
]

ENGINE = [("train training.accumulate=64", SETTING, "training.accumulate")]


@pytest.fixture
def typed(request, tmp_path, monkeypatch, cache, capfd):
    """Return a function that runs a command line beside FILES and returns what it prints to people, and its exit code."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(cache))

    def run(line):
        folders = {name: request.getfixturevalue(RUNS[name]) for name in re.findall(r"{(\w+)}", line)}
        capfd.readouterr()  # of the runs
        message, exit_code = "", 0
        try:
            cli.run(shlex.split(line.format_map(folders)))
        except UserError as error:
            message, exit_code = str(error), error.exit_code
        return capfd.readouterr().err + message, exit_code

    return run


@pytest.mark.parametrize(
    ("line", "exit_code", "named"), [*CLI, *ROWS, *DOCUMENTS, *REPORTS, *TRAIN, *USING, *ENGINE], ids=str
)
def test_a_mistake_is_named_briefly_and_leaves_nothing_behind(line, exit_code, named, typed, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    printed, ended = typed(line)
    assert ended == exit_code, printed
    assert named in printed
    assert len([written for written in printed.splitlines() if written.strip()]) <= 8
    assert "Traceback" not in printed
    assert sorted(tmp_path.rglob("*")) == before
