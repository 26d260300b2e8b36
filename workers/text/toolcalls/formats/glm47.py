"""Calls of GLM 4.5 to 4.7, as a name and pairs of `<arg_key>` and `<arg_value>`.

Source: the chat templates of GLM-4.5, GLM-4.6 and GLM-4.7.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.pair_block import PairBlockParser, tags

FORMAT = Format(
    name="glm47",
    markers=tags(""),
    detect=lambda template: "<arg_key>" in template,
    parser=lambda tools: PairBlockParser("", tools),
)
