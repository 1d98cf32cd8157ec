"""What a file holds, and how far its texts are from those of a run."""
