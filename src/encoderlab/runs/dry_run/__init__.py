"""What a run would cost, from a few of its steps."""
