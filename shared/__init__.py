"""What gateway and workers share: protobuf code, settings, errors, process life.

Imports nothing of ours but itself.
"""

import os

# gRPC reads these once, when it is loaded; set them in the environment to debug gRPC. Its core logs
# to stderr, at INFO for every closed connection. Its fork handlers, on by default in the wheels for
# macOS, run in every child of a process that forks: they log, and may abort the child (grpc#43062).
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Its own resolver, c-ares, does not know the names of the local network, which end in ".local".
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
