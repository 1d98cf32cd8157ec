"""Fitting a training step to this machine: its batches, its memory, its processes and its compiler."""
