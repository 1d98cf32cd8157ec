"""What a service has done since it started, in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds: Prometheus' own defaults
NO_LABEL = "(none)"


class ServiceMetrics:
    """Counts of requests by status, of texts, and of predictions by label; and how long requests took."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.requests: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.texts = 0
        self.durations = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    def request(self, status: int, seconds: float) -> None:
        """Count a request that was answered with this status after so many seconds."""
        self.requests[str(status)] += 1
        self.durations[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    def predicted(self, predictions: Iterable[Mapping[str, object]]) -> None:
        """Count the predictions for texts, as `/predict` returns them: by label, where they are labels."""
        for prediction in predictions:
            self.texts += 1
            words = prediction.get("words")
            labelled = words if isinstance(words, list) else [prediction]
            for one in labelled:
                value = one["predicted"]
                if isinstance(value, str):
                    self.labels[value] += 1
                elif value is None or value == []:
                    self.labels[NO_LABEL] += 1
                elif isinstance(value, list):
                    self.labels.update(value)

    def text(self) -> str:
        """Return all numbers as Prometheus reads them."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _described("model_info", "gauge", "The task of the model.")
        yield f"encoderlab_model_info{_labels(task=self.task)} 1"
        yield from _described("requests_total", "counter", "Requests to /predict by HTTP status.")
        for status, count in sorted(self.requests.items()):
            yield f"encoderlab_requests_total{_labels(status=status)} {count}"
        yield from _described("texts_total", "counter", "Texts that were predicted.")
        yield f"encoderlab_texts_total {self.texts}"
        yield from _described("predictions_total", "counter", "Predictions by label, of texts or of words.")
        for label, count in sorted(self.labels.items()):
            yield f"encoderlab_predictions_total{_labels(label=label)} {count}"
        yield from _described("request_seconds", "histogram", "How long requests to /predict took.")
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.durations, strict=True):
            total += count
            yield f"encoderlab_request_seconds_bucket{_labels(le=bound)} {total}"
        yield f"encoderlab_request_seconds_sum {self.seconds:.6f}"
        yield f"encoderlab_request_seconds_count {total}"


def _described(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP encoderlab_{name} {words}", f"# TYPE encoderlab_{name} {kind}"]


def _labels(**labels: str) -> str:
    """Return the labels of a sample with their values escaped."""
    escaped = {}
    for name, value in labels.items():
        escaped[name] = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
