"""Training to the end: what is logged, scored and kept, and what may come before it."""
