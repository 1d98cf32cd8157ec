"""From a dataset to the rows that a run reads."""
