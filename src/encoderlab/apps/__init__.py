"""What is done with models and runs: nothing inside imports it."""
