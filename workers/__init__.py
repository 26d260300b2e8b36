"""Worker processes: one package per kind, one process per model.

A worker imports `shared` and what its own kind needs, never another worker.
"""
