"""The training loop and its parts. They know batches, losses and steps, but neither tasks nor the files of a run."""
