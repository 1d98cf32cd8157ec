"""The pretrained encoders that encoderlab ships, a folder each, and their catalogue."""
