"""Runs and sweeps on disk: their folders, which of them are finished, and how one is resumed."""
