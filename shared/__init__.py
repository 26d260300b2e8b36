"""What gateway and workers share: protobuf code, settings, errors, process life.

Imports nothing of ours but itself.
"""

import os

# gRPC's core logs to stderr, at INFO for every closed connection. It reads this variable once, when
# it is loaded; set it in the environment to debug gRPC.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
