"""Learning rates as a pure function of the step."""

import math

from encoderlab.training.config import Schedule, TrainingConfig

ONE_CYCLE_START = 1 / 25  # of the peak, as in Smith and Topin's code and PyTorch's OneCycleLR


def learning_rate_at(step: int, steps: int, config: TrainingConfig) -> float:
    """The learning rate of the optimizer step that follows `step` finished ones, out of `steps`.

    All schedules rise over the first `config.warmup` share of the steps. Then `linear` falls in a straight line and `cosine` in
    half a cosine wave to exactly zero after the last step (Loshchilov and Hutter 2017, section 3), `constant` stays, and
    `one_cycle` (Smith and Topin 2018, section 2) rises and falls along cosines, from 1/25 of the peak and down to zero.
    """
    rising = math.ceil(config.warmup * steps)
    one_cycle = config.schedule is Schedule.one_cycle
    if step < rising:
        share = (step + 1) / rising
        return config.learning_rate * (ONE_CYCLE_START + (1 - ONE_CYCLE_START) * _wave(share) if one_cycle else share)
    remaining = (steps - step) / max(steps - rising, 1)
    if config.schedule is Schedule.constant:
        return config.learning_rate
    return config.learning_rate * (remaining if config.schedule is Schedule.linear else _wave(remaining))


def _wave(share: float) -> float:
    """Half a cosine wave, from 0 at 0 to 1 at 1."""
    return (1 - math.cos(math.pi * share)) / 2
