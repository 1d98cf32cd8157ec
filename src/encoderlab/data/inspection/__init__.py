"""What is odd in a dataset, and how a tokenizer cuts it."""
