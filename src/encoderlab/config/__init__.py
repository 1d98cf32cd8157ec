"""The way from the arguments of a command line to typed settings."""
