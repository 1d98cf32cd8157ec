"""Break runs on purpose and count what survives; see `python -m faults --help`, and RELIABILITY.md for the results."""
