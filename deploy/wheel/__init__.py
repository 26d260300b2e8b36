"""The wheel: its build backend and the one package that it installs.

`backend.py` imports nothing of ours: the build runs it before anything is installed.
"""
