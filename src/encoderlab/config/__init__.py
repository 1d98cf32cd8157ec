"""From command-line arguments to typed settings."""
