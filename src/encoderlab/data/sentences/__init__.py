"""Documents to sentences, and on to blocks of their tokens."""
