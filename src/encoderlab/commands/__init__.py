"""One command, one file, one function."""
