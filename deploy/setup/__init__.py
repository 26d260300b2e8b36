"""What a machine needs before anything runs: the virtual environment, a fast BLAS, progress lines.

Runs on the system's Python with the standard library alone. May be imported by every other room.
"""
