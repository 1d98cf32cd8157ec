"""The progress of a run: which evaluation is the best, and that a checkpoint contains all of it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.journal import Best, Counted, Progress


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-0.5, 0.1, 0.7])), min_size=1, max_size=30
    )
)
def test_the_best_has_the_highest_score_then_the_lowest_loss_and_counts_evaluations_since(evaluations):
    best = Best()
    for step, (score, loss) in enumerate(evaluations, start=1):
        best.offer(step, score, loss)
    ranks = [(score, -loss) for score, loss in evaluations]
    first = ranks.index(max(ranks))
    assert ((best.score, -best.loss), best.step, best.since) == (max(ranks), first + 1, len(ranks) - 1 - first)


def test_checkpointed_progress_is_restored_unchanged():
    progress = Progress(step=7, of=9, judged=5, best=Best(0.5, 5, 1, 0.25), counted=Counted(1.5, 70, 800, 900))
    assert Progress.from_dict(json.loads(json.dumps(progress.as_dict()))) == progress
