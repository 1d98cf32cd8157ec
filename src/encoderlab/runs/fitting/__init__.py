"""Training to the end: what is logged, scored and kept on the way, and what may come in before it."""
