"""encoderlab: train transformer encoders from scratch."""
