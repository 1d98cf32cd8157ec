"""A tiny estimator, and texts of two classes."""

SIZES = {"model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2}


TINY = {
    "init_from": None,
    "steps": 2,
    "batch_size": 8,
    "validation_fraction": 0.0,
    "settings": SIZES | {"training.precision": "fp32", "training.threads": 1},
}


TEXTS = [f"{word} film, number {number}" for number in range(20) for word in ("a warm and witty", "a dull and empty")]


CLASSES = ["good", "bad"] * 20
