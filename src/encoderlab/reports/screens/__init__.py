"""What commands that do not train print."""
