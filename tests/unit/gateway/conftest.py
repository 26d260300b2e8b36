from __future__ import annotations

from hypothesis import settings

# The same examples in every run, and no time limit, since the machine may be busy.
settings.register_profile("gateway", derandomize=True, deadline=None)
settings.load_profile("gateway")
