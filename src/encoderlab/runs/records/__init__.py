"""What a run records: its settings, its environment, and what trackers receive."""
