"""Inspecting data before a run, and a run's files after it."""
