"""Measures encoderlab beside what a user would run instead; `python -m benchmarks --help`."""
