"""Learning rates as a pure function of the step."""

import math

from encoderlab.training.config import Schedule, TrainingConfig

PEAK, PEAK_WIDTH, HIGHEST_PEAK = 5e-4, 256, 1e-3
ONE_CYCLE_START = 1 / 25  # of the peak, as in Smith and Topin's code and PyTorch's OneCycleLR


def learning_rate_at(step: int, steps: int, config: TrainingConfig) -> float:
    """Return the learning rate of the optimizer step that follows `step` finished ones, out of `steps`.

    All schedules rise over the first `config.warmup` share of the steps. Then `linear` falls in a straight line and
    `cosine` in half a cosine wave to exactly zero after the last step (Loshchilov and Hutter 2017, section 3),
    `constant` stays, and `one_cycle` (Smith and Topin 2018, section 2) rises and falls along cosines, from 1/25 of the
    peak and down to zero.
    """
    peak = config.learning_rate
    assert peak is not None
    rising = math.ceil(config.warmup * steps)
    one_cycle = config.schedule is Schedule.one_cycle
    if step < rising:
        share = (step + 1) / rising
        return peak * (ONE_CYCLE_START + (1 - ONE_CYCLE_START) * _wave(share) if one_cycle else share)
    remaining = (steps - step) / max(steps - rising, 1)
    if config.schedule is Schedule.constant:
        return peak
    return peak * (remaining if config.schedule is Schedule.linear else _wave(remaining))


def peak_for_width(d_model: int) -> float:
    """Return a peak learning rate for finetuning: 5e-4 at a width of 256, less for wider encoders, at most 1e-3 for
    narrower ones.

    It falls with the square of the width: at 768 it is 5.6e-5, near the 2e-5 to 5e-5 of BERT (Devlin et al. 2019,
    appendix A.3). With 1e-3, an encoder of width 128 pretrained here scored 0.722 on the validation split of the
    built-in task, with 5e-4 0.690.

    >>> peak_for_width(128), peak_for_width(256), peak_for_width(384), peak_for_width(768)
    (0.001, 0.0005, 0.00022, 5.6e-05)
    """
    ratio = PEAK_WIDTH / d_model
    return float(f"{min(PEAK * min(ratio, ratio**2), HIGHEST_PEAK):.1e}")


def _wave(share: float) -> float:
    """Return half a cosine wave, from 0 at 0 to 1 at 1."""
    return (1 - math.cos(math.pi * share)) / 2
