"""A folder with a page that runs a graph in the browser, opened from a server of files or as a file, without either's
help.

Browsers let a page that was opened as a file load scripts, but read no other file. So the model and the libraries are
packed into scripts: each file's gzip, as base64.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoderlab.errors import SettingError
from encoderlab.exchange.weights import read_config

NPM = "@huggingface/transformers"  # the package that brings the others along
# The files of its own packages that a page needs, by the name that the page knows them by.
RUNTIME = {
    "onnxruntime.mjs": "dist/ort.wasm.bundle.min.mjs",
    "onnxruntime.wasm": "dist/ort-wasm-simd-threaded.wasm",
}
TOKENIZERS = {"tokenizers.mjs": "dist/tokenizers.min.mjs"}
PACKAGES = {"onnxruntime-web": RUNTIME, "@huggingface/tokenizers": TOKENIZERS}
LARGEST_FILE = 2**29  # characters: browsers keep a longer text in no variable


@dataclass(frozen=True, slots=True)
class Library:
    """The JavaScript that a page needs: `files` by the page's names, the licences to pass on, and a line about each."""

    files: dict[str, Path]
    licenses: dict[str, Path]
    versions: tuple[str, ...]


def find_library(modules: Path) -> Library:
    """Return the library in a folder `node_modules`. Raises SettingError if npm did not install it there."""
    files: dict[str, Path] = {}
    licenses: dict[str, Path] = {}
    versions = []
    for package, parts in PACKAGES.items():
        folder = _folder_of(modules, package)
        for name, part in parts.items():
            if not (folder / part).is_file():
                raise SettingError(
                    f"format=web needs the JavaScript library {NPM}, but there is no {folder / part}",
                    allowed="library=FOLDER, the folder node_modules in which npm installed it",
                    remedy=f"Run npm install --no-save --ignore-scripts {NPM} here, or set library",
                )
            files[name] = folder / part
        about = read_config(folder, "package.json")
        versions.append(f"{package} {about.get('version')} ({about.get('license', 'see its page')})")
        if (folder / "LICENSE").is_file():
            licenses[f"LICENSE.{package.rpartition('/')[2]}.txt"] = folder / "LICENSE"
    return Library(files, licenses, tuple(versions))


def _folder_of(modules: Path, package: str) -> Path:
    """Return a package's folder, which npm puts below another's where versions differ."""
    nested = modules / NPM / "node_modules" / package
    return nested if nested.is_dir() else modules / package


def write_web_folder(
    folder: Path, page: str, graph_folder: Path, graph: Path, library: Library, optional: Sequence[str]
) -> None:
    """Write the page with the model of `graph_folder`, whose `graph` it runs, and those of the `optional` files that
    are there. Raises SettingError if it is too large.

    Nothing else needs to be there: not the graph's folder, nor the library's.
    """
    names = ["config.json", "tokenizer.json", "tokenizer_config.json"]
    names += [name for name in optional if (graph_folder / name).is_file()]
    model = {name: graph_folder / name for name in names}
    _write_packed(folder / "model.js", model | {"model.onnx": graph}, "The model, packed by encoderlab.")
    _write_packed(folder / "library.js", library.files, f"Packed: {', '.join(library.versions)}.")
    for name, path in library.licenses.items():
        shutil.copyfile(path, folder / name)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _write_packed(path: Path, files: Mapping[str, Path], comment: str) -> None:
    lines = [f"// {comment}"]
    for name, file in files.items():
        compressed = gzip.compress(file.read_bytes(), compresslevel=6, mtime=0)
        content = base64.b64encode(compressed).decode("ascii")
        if len(content) > LARGEST_FILE:
            raise SettingError("The model is too large for a page", allowed="384 MB", remedy="Use format=int8")
        lines.append(f"packed[{json.dumps(name)}] = {json.dumps(content)};")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
