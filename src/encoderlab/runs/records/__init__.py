"""What a run writes down of itself: its settings, its environment, and what trackers are told."""
