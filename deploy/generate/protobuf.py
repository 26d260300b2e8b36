"""Generates shared/pb from proto/.

The only caller of protoc. The generated code is committed; a test compares it with a new one.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from grpc_tools import protoc

from deploy import ROOT


def generate(out: Path) -> None:
    """Write `shared/pb/*_pb2*` below a folder.

    With the virtual path shared/pb=proto the generated modules import each other as
    `shared.pb`, which they do not with a plain `-I proto`.
    """
    sources = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))
    outputs = ("python", "grpc_python", "mypy", "mypy_grpc")
    arguments = ["protoc", f"-Ishared/pb={ROOT / 'proto'}"]
    arguments += [f"--{output}_out={out}" for output in outputs]
    # The plugins are beside this interpreter, which need not be on PATH.
    scripts = sysconfig.get_path("scripts")
    plugins = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    arguments += [f"--plugin={plugin}={scripts}/{plugin}" for plugin in plugins]
    code = protoc.main(arguments + [f"shared/pb/{name}" for name in sources])
    if code != 0:
        sys.exit(f"error: protoc ended with exit code {code}")


if __name__ == "__main__":
    generate(ROOT)
