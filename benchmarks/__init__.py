"""encoderlab measured against what a user would run instead: speed, how cost grows, GPUs, and quality on
public data.
"""
