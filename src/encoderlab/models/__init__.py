"""Models, trained or pretrained: on disk, as vectors, explained, and the texts of a new file."""
