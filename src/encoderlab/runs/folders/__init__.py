"""Runs and sweeps on disk: their folders, whether they are finished, and how they are resumed."""
