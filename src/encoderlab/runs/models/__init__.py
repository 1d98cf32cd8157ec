"""From settings, or from a folder, to a model that is ready to use."""
