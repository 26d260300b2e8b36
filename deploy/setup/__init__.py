"""What a machine needs before anything runs: the virtual environment and a fast BLAS.

Runs on a bare Python with the standard library alone. May be imported by every other room.
"""
