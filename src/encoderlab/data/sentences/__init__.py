"""Documents split into sentences, and their tokens in blocks."""
