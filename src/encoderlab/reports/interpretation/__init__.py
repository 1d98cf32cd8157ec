"""Attention and token importance, for people."""
