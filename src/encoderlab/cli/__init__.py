"""From command-line arguments to one command, to its help, or to what TAB completes."""
