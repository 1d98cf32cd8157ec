"""A small student learns from a larger teacher: its vectors on documents, or its probabilities on a task."""
