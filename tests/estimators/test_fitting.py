"""Training for an estimator: silent and without a trace on disk; and values as typed settings."""

import tempfile

import numpy as np
import pytest

from encoderlab import TextClassifier
from encoderlab.errors import SettingError
from encoderlab.estimators.text_estimators import InputError
from tests.estimators.tiny import CLASSES, TEXTS, TINY


def test_fit_prints_nothing_and_leaves_no_file(tmp_path, monkeypatch, capfd):
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    TextClassifier(**TINY | {"validation_fraction": 0.2}).fit(TEXTS, CLASSES)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError):
        TextClassifier(**TINY | {"validation_fraction": 0.2}).fit(TEXTS[:2], CLASSES[:2])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    TextClassifier(**TINY, verbose=True).fit(TEXTS, CLASSES)
    assert "parameters" in capfd.readouterr().err


def test_without_init_from_it_starts_from_the_shipped_encoder(shipped):
    settings = {"training.warmup": 0.25, "training.precision": "fp32", "training.threads": 1}
    classifier = TextClassifier(steps=2, batch_size=4, learning_rate=np.float64(0.01), dropout=0.2, settings=settings)
    config = classifier.fit(TEXTS, CLASSES).model_.saved.config
    assert (config.model.name, config.model.d_model, config.model.dropout) == ("mini-en", 16, 0.2)
    assert (config.training.warmup, config.training.learning_rate, config.training.batch_size) == (0.25, 0.01, 4)
    assert config.dataset.validation_fraction == 0  # all of few rows are trained on


def test_a_setting_that_does_not_exist_is_refused_by_name():
    with pytest.raises(SettingError, match="There is no setting training.warm_up. Did you mean training.warmup?"):
        TextClassifier(settings={"training.warm_up": 0.1}).fit(TEXTS, CLASSES)
    with pytest.raises(SettingError, match=r'Allowed: a dictionary such as {"training.warmup": 0.1}'):
        TextClassifier(settings=["training.warmup=0.1"]).fit(TEXTS, CLASSES)


def test_a_mapping_can_have_any_class_as_a_key():
    weights = {"good": np.int64(2), "bad, né: {really}": 0.5}
    settings = TINY["settings"] | {"task.class_weights": weights}
    fitted = TextClassifier(**TINY | {"settings": settings}).fit(TEXTS, np.array(list(weights) * 20))
    assert fitted.model_.saved.config.task.class_weights == {"good": 2, "bad, né: {really}": 0.5}
    with pytest.raises(SettingError, match="There is no setting task.class_weight. Did you mean task.class_weights?"):
        TextClassifier(**TINY | {"settings": {"task.class_weight": weights}}).fit(TEXTS, CLASSES)
    with pytest.raises(SettingError, match="task.class_weights is"):
        TextClassifier(**TINY | {"settings": {"task.class_weights": {"good": -1}}}).fit(TEXTS, CLASSES)
