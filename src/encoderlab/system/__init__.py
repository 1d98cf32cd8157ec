"""This machine and this process: devices, signals, other processes, and files that appear whole or not at all."""
