"""Many runs from one command line: every combination, or a search."""
