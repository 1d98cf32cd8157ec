"""Comparisons of several runs."""
