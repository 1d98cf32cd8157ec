"""encoderlab on a CUDA GPU: first whether it computes what a CPU computes and resumes exactly, then how fast it
pretrains.
"""
