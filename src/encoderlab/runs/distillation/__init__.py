"""What a teacher gives its student: a start, and targets to learn."""
