"""Users' own files as examples or documents: every row is read unchanged, or refused with its line number."""
