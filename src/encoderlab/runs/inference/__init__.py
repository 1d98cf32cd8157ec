"""What is asked of a finished run: answers, vectors, guesses at masks, and reasons."""
