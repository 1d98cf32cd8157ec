"""What commands write for other programs: answers for new texts, the predictions of a split, vectors."""
