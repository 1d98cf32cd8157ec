"""Examples and documents, what is counted in them, how they are split, and the store their tokens lie in."""
