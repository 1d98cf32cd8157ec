"""What a user would run instead: scripts that import nothing of encoderlab except the data of its built-in task."""
