"""Text to the ids of pieces, and the settings that choose how."""
