"""What gateway and workers have in common: the wire vocabulary, settings, errors, process life.

Imports nothing of ours but itself.
"""

import os

# gRPC's core writes lines of its own to stderr, at info level about every connection that ends.
# It reads this once, when it is loaded; whoever debugs it sets the variable from outside.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
