"""Measure encoderlab against what a user would run instead; `python -m benchmarks --help`."""
