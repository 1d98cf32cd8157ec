"""Why a row was chosen to be labelled, as the column `selected` of a file says it.

Only rows that were drawn at random say how accurate a model is on new texts, so folds score them separately.
"""

from enum import Enum

SELECTED = "selected"  # the column
FEW_RANDOM = 10  # rows drawn at random: the accuracy on fewer means nothing


class Reason(Enum):
    """Why a row is to be labelled."""

    random = "random"  # drawn at random
    typical = "typical"  # nearest to the centre of a cluster
    unsure = "unsure"  # two labels are almost as probable
    again = "again"  # it has a label, which a model of the others contradicts
