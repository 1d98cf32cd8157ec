"""What a teacher gives its student: initial weights, and targets to learn."""
