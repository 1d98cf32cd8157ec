"""Text to token ids, and the settings of the tokenizers."""
