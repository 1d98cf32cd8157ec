"""The report of a run that learned from documents."""
