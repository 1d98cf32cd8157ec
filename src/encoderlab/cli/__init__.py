"""From the words on a command line to one command, or to its help."""
