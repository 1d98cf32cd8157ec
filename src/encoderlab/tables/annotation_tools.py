"""The exports of annotation tools, each recognised by its shape, as texts with the answers that people gave about them.

The shapes are those of doccano (backend/data_export), Label Studio (label-studio-converter: JSON, JSON_MIN, CSV),
Argilla (records/_resource.py, and the records of its first version) and Prodigy (prodi.gy/docs/api-interfaces).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Record = tuple[int, dict[str, Any]]  # the line a row begins on (or its number), and its values by column
Span = tuple[int, int, str]  # first character, the one after the last, and the label

LABEL = "label"  # the question of a tool that has one
SPANS = "spans"  # the question beside it that spans answer
DOCCANO = "doccano"


@dataclass(slots=True)
class AnnotatedText:
    """A text with its further columns, and by question the answers about it, one for each person.

    An answer is a label, a list of labels, a list of spans, or a number. `n_asked` people saw every question of the
    export: those who left one open say that nothing applies. `words` are the borders of its words, if the tool states
    them. `is_left_out` says that people rejected the text, or cancelled what they began.
    """

    number: int
    columns: dict[str, Any]
    answers: dict[str, list[Any]]
    n_asked: int = 0
    words: list[tuple[int, int]] | None = None
    is_left_out: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """An annotation tool: whether a record is one of its export, and how its records become texts."""

    name: str
    has_written: Callable[[Mapping[str, Any]], bool]
    texts: Callable[[Iterable[Record], Counter[str]], Iterable[AnnotatedText]]
    needs_all: bool = True  # to know the questions, and which records are about one text


def spans_of(answer: Any) -> list[Span] | None:
    """Return the spans that an answer consists of; None if it is something else, or empty."""
    if not isinstance(answer, list) or not answer:
        return None
    spans = [*map(_span, answer)]
    return None if None in spans else [span for span in spans if span is not None]


def _span(value: Any) -> Span | None:
    """Return a span as any of the tools writes it; None for anything else."""
    if isinstance(value, list) and len(value) == 3:
        start, end, label = value
    elif isinstance(value, dict):
        start = value.get("start", value.get("start_offset"))
        end = value.get("end", value.get("end_offset"))
        labels = value.get("labels") or value.get("hypertextlabels")
        label = labels[0] if isinstance(labels, list) and labels else value.get("label")
    else:
        return None
    if isinstance(start, int) and isinstance(end, int) and isinstance(label, str):
        return (start, end, label)
    return None


def sorted_answer(answer: Any) -> str:
    """Return a text that is the same for equal answers, whatever the order of their labels or spans."""
    parts = [*map(json.dumps, answer)] if isinstance(answer, list) else [json.dumps(answer)]
    return "\n".join(sorted(parts))


def _is_doccano(record: Mapping[str, Any]) -> bool:
    has_text = isinstance(record.get("text", record.get("data")), str)
    return has_text and any(
        isinstance(record.get(name), list) and all(isinstance(one, str) or _span(one) for one in record[name])
        for name in ("label", "labels", "cats", "entities")
    )


def _doccano_texts(records: Iterable[Record], counts: Counter[str]) -> Iterator[AnnotatedText]:
    """Yield the texts of doccano: a list of labels, of spans, or (of intents) of both."""
    for number, record in records:
        columns = {}
        answers = {}
        for name, value in record.items():
            if name in ("label", "labels", "cats", "entities"):
                answers[name] = [value]
            elif name not in ("relations", "Comments", "comments"):
                columns["text" if name == "data" and "text" not in record else name] = value
        yield AnnotatedText(number, columns, answers)


def _is_label_studio(record: Mapping[str, Any]) -> bool:
    annotations = record.get("annotations", record.get("completions", record.get("predictions")))
    return isinstance(record.get("data"), dict) and isinstance(annotations, list)


def _label_studio_texts(records: Iterable[Record], counts: Counter[str]) -> Iterator[AnnotatedText]:
    """Yield the texts of Label Studio's JSON. If annotations are marked as ground truth, only those are answers."""
    for number, record in records:
        columns = {name: value for name, value in record["data"].items() if not isinstance(value, list | dict)}
        annotations = record.get("annotations", record.get("completions")) or []
        taken = [one for one in annotations if not one.get("was_cancelled") and not one.get("skipped")]
        counts["ignored"] += len(annotations) - len(taken)
        counts["suggested"] += not taken and bool(record.get("predictions"))
        is_left_out = bool(annotations) and not taken
        true = [one for one in taken if one.get("ground_truth")]
        answers: defaultdict[str, list[Any]] = defaultdict(list)
        for annotation in true or taken:
            for name, answer in _label_studio_answers(annotation).items():
                answers[name].append(answer)
        yield AnnotatedText(number, columns, dict(answers), len(true or taken), is_left_out=is_left_out)


def _label_studio_answers(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of an annotation, by the names of the tags that took them."""
    regions: defaultdict[str, list[Any]] = defaultdict(list)
    for region in annotation.get("result") or []:
        if isinstance(region.get("value"), dict):  # a relation has none
            regions[region.get("from_name", LABEL)].append(region["value"])
    return {name: _of_regions(values) for name, values in regions.items()}


def _of_regions(values: list[Any]) -> Any:
    """Return the answer that the regions of a Label Studio tag make up: labels, spans, or one text or number."""
    answer: list[Any] = []
    for value in values:
        if not isinstance(value, dict):
            answer.append(value)
        elif _span(_without_global_offsets(value)):
            answer.append(_without_global_offsets(value))
        elif isinstance(value.get("choices"), list):
            answer += value["choices"]
        elif isinstance(value.get("taxonomy"), list):
            answer += [" / ".join(map(str, path)) for path in value["taxonomy"] if isinstance(path, list)]
        else:
            single = [value[name] for name in ("rating", "number", "text") if name in value]
            answer += single[0] if single and isinstance(single[0], list) else single
    if len(answer) == 1 and not isinstance(answer[0], dict):
        return answer[0]
    return answer


def _without_global_offsets(value: dict[str, Any]) -> dict[str, Any]:
    """Return a region of a HyperText with its offsets in the text, where start and end are paths in the page."""
    offsets = value.get("globalOffsets")
    return {**value, **offsets} if isinstance(offsets, dict) else value


_MINIMAL = {"annotation_id", "annotator", "lead_time"}  # columns that JSON_MIN and CSV always have
_ABOUT_MINIMAL = {*_MINIMAL, "created_at", "updated_at", "was_cancelled", "agreement"}


def _is_minimal_label_studio(record: Mapping[str, Any]) -> bool:
    return {*record} >= _MINIMAL


def _minimal_label_studio_texts(records: Iterable[Record], counts: Counter[str]) -> list[AnnotatedText]:
    """Return the texts of JSON_MIN and CSV, which have a row for each annotation, with questions and data side by side.

    A question is what has another value in another row about the same text, or a value that only a question has.
    """
    rows: defaultdict[Hashable, list[Record]] = defaultdict(list)
    questions: set[str] = set()
    for number, record in records:
        if str(record.get("was_cancelled")).lower() == "true":
            counts["ignored"] += 1
            continue
        values = {}
        for name, value in record.items():
            if name not in _ABOUT_MINIMAL:
                values[name] = _unpacked(value)
                if values[name] is not value:
                    questions.add(name)
        key = record.get("id", record["annotation_id"])
        rows[key if isinstance(key, str | int) else number].append((number, values))
    for group in rows.values():
        questions |= _differing(values for _, values in group)
    return [_of_rows(group, questions) for group in rows.values()]


def _of_rows(rows: list[Record], questions: set[str]) -> AnnotatedText:
    """Return the text that rows of JSON_MIN or CSV are about, with the answers of each."""
    number, first = rows[0]
    columns = {name: value for name, value in first.items() if name not in questions}
    answers: defaultdict[str, list[Any]] = defaultdict(list)
    for _, values in rows:
        for name, value in values.items():
            if name in questions:
                answers[name] += [] if value in (None, "") else [value]
    return AnnotatedText(number, columns, dict(answers))


def _differing(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the columns that have several values in these rows, or a value in some of them only."""
    n_rows = 0
    counts: Counter[str] = Counter()
    values_of: defaultdict[str, set[str]] = defaultdict(set)
    for values in rows:
        n_rows += 1
        counts.update(values.keys())
        for name, value in values.items():
            values_of[name].add(sorted_answer(value))
    for name, count in counts.items():
        if count < n_rows:
            values_of[name].add(sorted_answer(None))
    return {name for name, values in values_of.items() if len(values) > 1}


def _unpacked(value: Any) -> Any:
    """Return the answer that a cell of JSON_MIN or CSV holds; any other cell as it is."""
    content = value
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(content, dict) and "choices" in content:
        content = [content]
    if not isinstance(content, list) or not content or not all(isinstance(one, dict) for one in content):
        return value
    known = ("choices", "labels", "hypertextlabels", "taxonomy")
    return _of_regions(content) if any(name in one for one in content for name in known) else value


def _is_argilla(record: Mapping[str, Any]) -> bool:
    answers = (record.get("responses"), record.get("suggestions"))
    return isinstance(record.get("fields"), dict) and any(isinstance(kind, dict | list) for kind in answers)


def _argilla_texts(records: Iterable[Record], counts: Counter[str]) -> Iterator[AnnotatedText]:
    """Yield the texts of Argilla: responses by question, or (in its first version) a response for each person."""
    for number, record in records:
        metadata = record.get("metadata")
        columns = {**(metadata if isinstance(metadata, dict) else {}), **record["fields"]}
        columns = {name: value for name, value in columns.items() if not isinstance(value, list | dict)}
        answers: defaultdict[str, list[Any]] = defaultdict(list)
        responses = record.get("responses") or {}
        by_question: list[tuple[str, Any]] = []
        if isinstance(responses, dict):
            by_question = [(name, one) for name, given in responses.items() for one in given]
        else:
            for person in responses:
                status = {"status": person.get("status")}
                by_question += [(name, {**one, **status}) for name, one in (person.get("values") or {}).items()]
        for name, response in by_question:
            if response.get("status") in (None, "submitted"):
                answers[name].append(response.get("value"))
            else:
                counts["ignored"] += 1
        counts["suggested"] += not answers and bool(record.get("suggestions"))
        yield AnnotatedText(number, columns, dict(answers))


_ANSWERS = ("accept", "reject", "ignore")


def _is_prodigy(record: Mapping[str, Any]) -> bool:
    return record.get("answer") in _ANSWERS and isinstance(record.get("text"), str)


def _prodigy_texts(records: Iterable[Record], counts: Counter[str]) -> list[AnnotatedText]:
    """Return the texts of Prodigy, with the options, labels and spans that each person accepted.

    If every row asks whether one and the same label applies, a rejected row means that it does not.
    """
    whole = [(number, record) for number, record in records if isinstance(record.get("text"), str)]
    asked = {record.get("label") for _, record in whole}
    is_yes_or_no = len(asked) == 1 and None not in asked and not any("accept" in record for _, record in whole)
    texts: dict[Hashable, AnnotatedText] = {}
    accepted: dict[tuple[Hashable, str], dict[str, dict[str, Any]]] = {}  # by text and person, each answer once
    for number, record in whole:
        key = record.get("_input_hash", record["text"])
        person = str(record.get("_annotator_id") or record.get("_session_id"))
        if key not in texts:
            columns = {**(record.get("meta") or {}), "text": record["text"]}
            words = _borders(record.get("tokens"))
            texts[key] = AnnotatedText(number, columns, {}, words=words, is_left_out=True)
        is_no = is_yes_or_no and record["answer"] == "reject"
        if record["answer"] == "accept" or is_no:
            texts[key].is_left_out = False
            counts["not"] += is_no
            answers = accepted.setdefault((key, person), {})
            for name, values in _prodigy_answers(record, is_no=is_no).items():
                before = answers.setdefault(name, {})
                for value in values:
                    before.setdefault(sorted_answer(value), value)
        else:
            counts["rejected" if record["answer"] == "reject" else "ignored"] += 1
    for (key, _), answers in accepted.items():
        for name, values in answers.items():
            texts[key].answers.setdefault(name, []).append([*values.values()])
    return list(texts.values())


def _prodigy_answers(record: Mapping[str, Any], *, is_no: bool) -> dict[str, list[Any]]:
    """Return the labels of a row, and its spans."""
    answers: dict[str, list[Any]] = {}
    if "accept" in record:
        answers[LABEL] = [*map(str, record["accept"])]
    elif isinstance(record.get("label"), str):
        answers[LABEL] = [f"not {record['label']}" if is_no else record["label"]]
    if record.get("spans") or not answers:
        answers[SPANS] = record.get("spans") or []
    return answers


def _borders(tokens: Any) -> list[tuple[int, int]] | None:
    """Return where the tokens of Prodigy that are not blank begin and end. Raises ValueError if they overlap."""
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        return None
    borders = []
    last = 0
    for token in tokens:
        start = int(token["start"])
        end = int(token["end"])
        if start >= end or not str(token.get("text", "")).strip():  # such as [CLS], which no letters stand for
            continue
        if start < last:
            raise ValueError("tokens overlap")
        borders.append((start, end))
        last = end
    return borders


TOOLS = (
    Tool("Prodigy", _is_prodigy, _prodigy_texts),
    Tool("Argilla", _is_argilla, _argilla_texts),
    Tool("Label Studio", _is_label_studio, _label_studio_texts),
    Tool("Label Studio", _is_minimal_label_studio, _minimal_label_studio_texts),
    Tool(DOCCANO, _is_doccano, _doccano_texts, needs_all=False),
)
