"""The part of an exported ONNX folder's README.md that shows how to use it with only onnxruntime and tokenizers."""

from __future__ import annotations

from typing import Any


def onnx_card(fields: dict[str, Any], *, opened: bool) -> str:
    """Return the section about ONNX; `fields` is the folder's config.json, and `opened` tells whether encoderlab opens
    it too.
    """
    text = "A text.\\tAnd another." if fields["paired"] else "A text to read."
    shell = f"$'{text}'" if fields["paired"] else f'"{text}"'
    ours = " `encoderlab predict`, `eval` and `serve` open this folder with `run=<this folder>`." if opened else ""
    outputs = "Its outputs" if fields["precision"] == "fp32" else "Before quantization, its outputs"
    return (
        f"## With onnxruntime\n\nmodel.onnx (opset {fields['opset']}) takes batches of any size, with up to {fields['max_length']} "
        f"tokens per row. {outputs} were compared with the model's own on batches of several sizes and lengths; they differ by "
        f"at most {fields['largest_difference']:.1e} of the largest output (allowed: {fields['tolerance']:g}).{ours}\n\n"
        "predict.py predicts texts and is short enough to copy into your own program. It needs "
        "`pip install numpy onnxruntime tokenizers`.\n\n"
        f"```\npython predict.py {shell}\npython predict.py < texts.txt\n```\n\n"
        "From Python:\n\n```python\nfrom pathlib import Path\n\nfrom predict import predict\n\n"
        f'print(predict(["{text}"], Path("path/to/this/folder")))\n```\n'
    )
