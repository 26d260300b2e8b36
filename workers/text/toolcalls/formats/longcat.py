"""Calls of LongCat-Flash, as a name and pairs of `<longcat_arg_key>` and `<longcat_arg_value>`.

Source: LongCat-Flash's chat template.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.pair_block import PairBlockParser, tags

FORMAT = Format(
    name="longcat",
    markers=tags("longcat_"),
    detect=lambda template: "<longcat_tool_call>" in template,
    parser=lambda tools: PairBlockParser("longcat_", tools),
)
