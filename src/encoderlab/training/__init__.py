"""The training loop and its parts: it knows batches, losses and steps, and neither tasks nor files of a run."""
