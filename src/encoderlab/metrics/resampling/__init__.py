"""What several runs on parts of the same rows show together."""
