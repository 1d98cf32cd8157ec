"""A finished run behind HTTP."""
