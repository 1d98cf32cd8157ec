"""Users' own files as examples or documents: every row as it stands, or refused with its line."""
