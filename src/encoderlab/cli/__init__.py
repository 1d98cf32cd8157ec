"""From command-line arguments to one command, or to its help."""
