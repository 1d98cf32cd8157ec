"""The part of an exported sentence-transformers folder's README.md that shows how to use it."""

from __future__ import annotations

from encoderlab.batch import HeadSizes

READ = {
    "label": (
        "`encode` returns a logit for each class.",
        "labels = model[0].auto_model.config.id2label\nprint([labels[row.argmax()] for row in outputs])",
    ),
    "label_set": (
        "`encode` returns a logit for each label.",
        "config = model[0].auto_model.config\nprobabilities = 1 / (1 + np.exp(-outputs))\n"
        "thresholds = [config.thresholds[label] for label in config.id2label.values()]\n"
        "print([[config.id2label[label] for label in np.flatnonzero(row >= thresholds)] for row in probabilities])",
    ),
    "number": ("`encode` returns the number.", "print(outputs[:, 0])"),
}
VECTORS = ("`encode` returns a vector for each text.", "print(outputs.shape)")


def sentence_transformers_card(heads: HeadSizes, *, answers: bool, paired: bool) -> str:
    """Return the section about sentence-transformers. `answers`: the folder has the head of `heads`; `paired`: it reads
    pairs.
    """
    returned, read = READ[heads.sequence_target] if answers else VECTORS
    texts = (
        '[("A text.", "And another."), ("One more.", "The last.")]' if paired else '["A text to read.", "Another one."]'
    )
    numpy = "import numpy as np\n" if "np." in read else ""
    return (
        f"## With sentence-transformers\n\n{returned}\n\n```python\n{numpy}"
        "from sentence_transformers import SentenceTransformer\n\n"
        f'model = SentenceTransformer("path/to/this/folder")\noutputs = model.encode({texts})\n{read}\n```\n'
    )
