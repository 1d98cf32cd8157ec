"""What a run would cost, estimated from a few of its steps."""
