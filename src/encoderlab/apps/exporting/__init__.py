"""A model as a folder for other programs."""
