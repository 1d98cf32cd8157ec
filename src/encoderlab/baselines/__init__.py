"""Scores that need no encoder, to say whether training one was worth it."""
