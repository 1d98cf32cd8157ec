"""What people read of a run, and the same figures for machines."""
