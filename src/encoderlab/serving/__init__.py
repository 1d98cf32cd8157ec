"""A finished run served over HTTP."""
