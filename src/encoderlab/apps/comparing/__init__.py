"""Many runs from one command line, and runs side by side."""
