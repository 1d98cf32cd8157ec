"""Breaks runs on purpose and counts what survives; `python -m faults --help`, and RELIABILITY.md for what was found."""
