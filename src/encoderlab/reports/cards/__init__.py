"""The README.md of a saved or exported model."""
