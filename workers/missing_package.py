"""Reports a package that is not installed in one line that names the extra it belongs to.

The libraries of a worker are imported at the top of its modules, before its `main` runs. So this
sets `sys.excepthook`, in processes that run a worker only.
"""

from __future__ import annotations

import sys

from shared.kind import KINDS
from shared.lifecycle import exit_permanently

_OURS = {"gateway", "workers", "shared", "deploy"}


def set_hook() -> None:
    """Report missing packages of the worker that this process runs, if it runs one."""
    if (extra := _find_extra()) is not None:
        sys.excepthook = lambda _, failure, __: _report(failure, extra)


def _find_extra() -> str | None:
    """Return the extra of the kind that `python -m` runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    program = spec.parent if spec is not None else ""
    return next((kind.extra for kind in KINDS.values() if kind.module == program), None)


def _report(failure: BaseException, extra: str) -> None:
    if isinstance(failure, ModuleNotFoundError) and failure.name:
        package = failure.name.partition(".")[0]
        if package not in _OURS:
            exit_permanently(
                f"the package {package} is not installed; to install what this worker needs: "
                f"pip install 'mlxcel-server[{extra}]'"
            )
    sys.__excepthook__(type(failure), failure, failure.__traceback__)
