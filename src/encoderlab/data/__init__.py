"""Examples and documents, their statistics, their splits, and the store of their tokens."""
