"""What installs, starts and keeps the processes: set-up, supervisor, launcher, starter models.

Imports `shared`; gateway and workers are started as processes of their own. Two pure parts of them
are read: the formats of tool calls, and the dialects, of which a page is made.
"""
