"""Using a finished run: predictions, vectors, filled-in masks, and explanations."""
