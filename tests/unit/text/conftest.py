from __future__ import annotations

from hypothesis import settings

# The same examples at every run, and no limit on time: the machine may be busy.
settings.register_profile("text", derandomize=True, deadline=None)
settings.load_profile("text")
