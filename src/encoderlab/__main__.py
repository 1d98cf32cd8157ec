"""Lets `python -m encoderlab` and torchrun start the command line."""

from encoderlab.cli.main import main

main()
