"""The training loop and its parts, which know batches, losses and steps, but neither tasks nor the files of a run."""
