"""What commands write for other programs: predictions for new texts or for a split, and vectors."""
