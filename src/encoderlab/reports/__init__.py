"""The results of a run, for people and for programs."""
