"""Odd rows in a dataset, and how a tokenizer splits its texts."""
