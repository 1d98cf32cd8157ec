"""What several runs on parts of the same rows tell together."""
