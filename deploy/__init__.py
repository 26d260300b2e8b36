"""What installs, starts and keeps the processes: set-up, supervisor, launcher, starter models.

Imports `shared` and never gateway or workers: those are started as processes of their own.
"""
