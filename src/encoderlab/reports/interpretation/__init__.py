"""Attention and token importance, as tables, plots and pages."""
