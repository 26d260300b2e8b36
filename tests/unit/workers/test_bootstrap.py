"""What a worker process sets up before it imports anything heavy."""

from __future__ import annotations

import pytest

from shared.kind import KINDS
from workers.bootstrap import set_environment


@pytest.mark.parametrize("kind", KINDS)
def test_only_text_may_multiply_with_the_precision_of_tf32(kind):
    environ = {}
    set_environment(kind, environ)
    assert environ == ({} if kind == "text" else {"MLX_ENABLE_TF32": "0"})


def test_a_variable_that_is_set_stays():
    environ = {"MLX_ENABLE_TF32": "1"}
    set_environment("embed", environ)
    assert environ == {"MLX_ENABLE_TF32": "1"}
