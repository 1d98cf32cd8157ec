"""What the README.md of a saved or exported model says of it."""
