"""What a look at data before a run, and at a run's files after it, brings to light."""
