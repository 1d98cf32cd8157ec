"""Baselines without an encoder, to show whether training one was worth it."""
