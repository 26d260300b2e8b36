"""How each family's chat template writes calls: one function per variant.

A variant that the property tests cover has a function here and a line in WRITERS.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.unit.text.toolcalls.sample import Answer
from workers.text.toolcalls import detection

EVERYWHERE = ("before", "between", "after")


@dataclass(frozen=True)
class Writer:
    """One variant of a format for writing an answer.

    Attributes:
        label: name of the format, after a slash the name of the variant if there are several.
        write: returns the raw text of an answer.
        text_at: where text may stand: "before", "between" and "after" calls.
        verbatim: arguments are given out as they were written; else they equal as values.
        single: an answer holds one call.
        plain_keys: the names of arguments are identifiers.
        forbidden: texts that no string in the arguments may hold: the format can't express them.
        avoids: texts that may not stand outside calls, beside the format's markers.
        accepts: whether an argument's value can be expressed; None for all.
    """

    label: str
    write: Callable[[Answer], str]
    text_at: tuple[str, ...] = EVERYWHERE
    verbatim: bool = True
    single: bool = False
    plain_keys: bool = False
    forbidden: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    accepts: Callable[[Any], bool] | None = None

    @cached_property
    def form(self):
        return detection.find(self.label.partition("/")[0])

    @property
    def avoided(self):
        return (*self.form.markers, *self.avoids)


def write_object(call, key="arguments"):
    return f'{{"name": {json.dumps(call.name)}, "{key}": {call.text}}}'


def write_hermes(answer):
    return answer.weave(lambda call: f"<tool_call>\n{write_object(call)}\n</tool_call>")


def write_hermes_arguments_first(answer):
    return answer.weave(
        lambda call: f'<tool_call>{{"arguments":{call.text},"name":"{call.name}"}}</tool_call>'
    )


def write_hermes_quoted(answer):
    """Arguments as a string that holds JSON."""

    def write(call):
        quoted = json.dumps(call.text)
        return f'<tool_call>\n{{"name": "{call.name}", "arguments": {quoted}}}\n</tool_call>'

    return answer.weave(write)


def write_list(answer, key="arguments"):
    return "[" + ", ".join(write_object(call, key) for call in answer.calls) + "]"


def write_hermes_list(answer):
    return f"{answer.before}<tool_call>\n{write_list(answer)}\n</tool_call>{answer.after}"


def write_mistral_nemo(answer):
    return f"{answer.before}[TOOL_CALLS] {write_list(answer)}{answer.after}"


def write_mistral(answer):
    return answer.weave(lambda call: f"[TOOL_CALLS]{call.name}[ARGS]{call.text}")


def write_mistral_with_ids(answer):
    return answer.weave(lambda call: f"[TOOL_CALLS]{call.name}[CALL_ID]a1B2c3D4e[ARGS]{call.text}")


def write_mistral_marker_once(answer):
    first, *others = [f"{call.name}[ARGS]{call.text}" for call in answer.calls]
    return f"{answer.before}[TOOL_CALLS]{''.join([first, *others])}{answer.after}"


def write_llama3(answer):
    return "; ".join(write_object(call, "parameters") for call in answer.calls) + answer.after


def write_llama3_tagged(answer):
    return f"{answer.before}<|python_tag|>{write_llama3(answer)}"


def write_generic(answer):
    return "\n".join(write_object(call) for call in answer.calls) + answer.after


def write_generic_list(answer):
    return write_list(answer) + answer.after


def write_parameter(value):
    """Return a value as Jinja prints it, but that what is no text is JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def write_qwen3_coder(answer):
    def write(call):
        parameters = "".join(
            f"<parameter={key}>\n{write_parameter(value)}\n</parameter>\n"
            for key, value in call.arguments.items()
        )
        return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"

    return answer.weave(write)


def write_functionary31(answer):
    return answer.weave(lambda call: f"<function={call.name}>{call.text}</function>")


def write_functionary32(answer):
    """All messages but the calls' are to the user, and the prompt has begun the first line."""
    text = answer.weave(lambda call: f">>>{call.name}\n{call.text}")
    return f"all\n{text}" if answer.before else text.removeprefix(">>>")


def write_kimi_k2(answer):
    calls = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{index}"
        f"<|tool_call_argument_begin|>{call.text}<|tool_call_end|>"
        for index, call in enumerate(answer.calls)
    )
    section = f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    return answer.before + section + answer.after


def write_deepseek(answer):
    calls = "".join(
        f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{call.text}<｜tool▁call▁end｜>"
        for call in answer.calls
    )
    return f"{answer.before}<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>{answer.after}"


def write_deepseek_fenced(answer):
    calls = "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n{call.text}\n```"
        "<｜tool▁call▁end｜>"
        for call in answer.calls
    )
    return f"{answer.before}<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>{answer.after}"


def write_granite(answer):
    elements = "\n".join(f"<tool_call>{write_object(call)}</tool_call>" for call in answer.calls)
    return f"{answer.before}<response>{elements}</response>{answer.after}"


def write_granite_token(answer):
    return f"{answer.before}<|tool_call|>{write_list(answer)}{answer.after}"


def write_granite_tag(answer):
    return answer.weave(lambda call: f"<tool_call>[{write_object(call)}]</tool_call>")


def write_action(call):
    return f'{{"tool_call_id": "0", "tool_name": "{call.name}", "parameters": {call.text}}}'


def write_command_r(answer):
    actions = ",\n    ".join(write_action(call) for call in answer.calls)
    block = f"<|START_ACTION|>[\n    {actions}\n]<|END_ACTION|>"
    return answer.before + block + answer.after


def write_command_r_lines(answer):
    return "\n".join(f"Action: {call.name}\nAction Input: {call.text}" for call in answer.calls)


def write_command_r_fence(answer):
    actions = ",\n".join(write_action(call) for call in answer.calls)
    return f"{answer.before}\nAction:\n```json\n[\n{actions}\n]```"


def write_harmony(answer):
    """Text is in messages to the user; the prompt has begun the first one."""

    def say(text):
        message = f"<|start|>assistant<|channel|>commentary<|message|>{text}<|end|>"
        return message if text else ""

    def write(call):
        header = f"<|channel|>commentary to=functions.{call.name} <|constrain|>json"
        return f"<|start|>assistant{header}<|message|>{call.text}<|call|>"

    first, *others = [write(call) for call in answer.calls]
    gaps = [*answer.gaps, answer.after]
    calls = "".join(say(gap) + call for gap, call in zip(gaps, others, strict=False))
    text = say(answer.before) + first + calls + say(gaps[-1])
    return text.removeprefix("<|start|>assistant")


def write_harmony_role(answer):
    header = "<|channel|>commentary json<|message|>"
    return "<|start|>assistant".join(
        f" to=functions.{call.name}{header}{call.text}<|call|>" for call in answer.calls
    )


def write_minimax_m2_invoke(call):
    parameters = "".join(
        f'<parameter name="{key}">{write_parameter(value)}</parameter>\n'
        for key, value in call.arguments.items()
    )
    return f'<invoke name="{call.name}">\n{parameters}</invoke>\n'


def write_minimax_m2(answer):
    invokes = "".join(map(write_minimax_m2_invoke, answer.calls))
    block = f"<minimax:tool_call>\n{invokes}</minimax:tool_call>"
    return answer.before + block + answer.after


def write_minimax_m2_bare(answer):
    return answer.weave(lambda call: write_minimax_m2_invoke(call).removesuffix("\n"))


M3 = "]<]minimax[>["


def write_minimax_m3_element(value):
    if isinstance(value, dict) and value:
        return "".join(
            f"{M3}<{key}>{write_minimax_m3_element(inner)}{M3}</{key}>"
            for key, inner in value.items()
        )
    if isinstance(value, list) and value:
        return "".join(f"{M3}<item>{write_minimax_m3_element(inner)}{M3}</item>" for inner in value)
    return write_parameter(value)


def is_flat(value):
    """Return whether a value holds nothing that needs a schema or a tag of its own."""
    if isinstance(value, list):
        return all(isinstance(inner, int | float) for inner in value)
    return not isinstance(value, dict) or not value


def write_minimax_m3(answer):
    def write(call):
        elements = write_minimax_m3_element(call.arguments) if call.arguments else ""
        return f'{M3}<invoke name="{call.name}">{elements}{M3}</invoke>\n'

    invokes = "".join(map(write, answer.calls))
    return f"{answer.before}{M3}<tool_call>\n{invokes}{M3}</tool_call>{answer.after}"


def write_pairs(answer, prefix, line):
    def write(call):
        pairs = "".join(
            f"{line}<{prefix}arg_key>{key}</{prefix}arg_key>"
            f"{line}<{prefix}arg_value>{write_parameter(value)}</{prefix}arg_value>"
            for key, value in call.arguments.items()
        )
        return f"<{prefix}tool_call>{call.name}{pairs}{line}</{prefix}tool_call>"

    return answer.weave(write)


def write_notation(value, mark):
    if isinstance(value, str):
        return f"{mark}{value}{mark}"
    if isinstance(value, dict):
        members = (
            f"{mark}{key}{mark}:{write_notation(inner, mark)}" for key, inner in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write_notation(inner, mark) for inner in value) + "]"
    return json.dumps(value)


def write_notation_call(call, mark):
    members = (f"{key}:{write_notation(value, mark)}" for key, value in call.arguments.items())
    return f"call:{call.name}{{{','.join(members)}}}"


def write_gemma4(answer):
    mark = '<|"|>'
    return answer.weave(lambda call: f"<|tool_call>{write_notation_call(call, mark)}<tool_call|>")


def write_function_gemma(answer):
    def write(call):
        body = write_notation_call(call, "<escape>")
        return f"<start_function_call>{body}<end_function_call>"

    return answer.weave(write)


def write_pythonic(answer):
    def write(call):
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        return f"{call.name}({arguments})"

    calls = ", ".join(map(write, answer.calls))
    return f"{answer.before}<|tool_call_start|>[{calls}]<|tool_call_end|>{answer.after}"


def write_pythonic_json(answer):
    return f"{answer.before}<|tool_call_start|>{write_list(answer)}<|tool_call_end|>{answer.after}"


WRITERS = (
    Writer("hermes", write_hermes),
    Writer("hermes/arguments first", write_hermes_arguments_first),
    Writer("hermes/quoted", write_hermes_quoted),
    Writer("hermes/list", write_hermes_list, text_at=("before", "after")),
    Writer("mistral_nemo", write_mistral_nemo, text_at=("before", "after")),
    Writer("mistral", write_mistral),
    Writer("mistral/ids", write_mistral_with_ids),
    Writer("mistral/marker once", write_mistral_marker_once, text_at=("before", "after")),
    Writer("mistral/list", write_mistral_nemo, text_at=("before", "after")),
    Writer("llama3", write_llama3, text_at=("after",)),
    # A bracket at the start may begin a call without the tag.
    Writer("llama3/tag", write_llama3_tagged, text_at=("before", "after"), avoids=("{",)),
    Writer("generic_json", write_generic, text_at=("after",)),
    Writer("generic_json/list", write_generic_list, text_at=("after",)),
    Writer(
        "qwen3_coder",
        write_qwen3_coder,
        verbatim=False,
        plain_keys=True,
        forbidden=("</parameter>",),
    ),
    Writer("functionary31", write_functionary31),
    Writer("functionary32", write_functionary32),
    Writer("kimi_k2", write_kimi_k2, text_at=("before", "after")),
    Writer("deepseek", write_deepseek, text_at=("before", "after")),
    Writer("deepseek/fenced", write_deepseek_fenced, text_at=("before", "after")),
    Writer("deepseek/hermes", write_hermes),
    Writer("granite", write_granite, text_at=("before", "after")),
    Writer("granite/token", write_granite_token, text_at=("before", "after")),
    Writer("granite/tag", write_granite_tag),
    Writer("command_r", write_command_r, text_at=("before", "after")),
    Writer("command_r/lines", write_command_r_lines, text_at=()),
    Writer("command_r/fence", write_command_r_fence, text_at=("before",), avoids=("Action:",)),
    Writer("harmony", write_harmony),
    Writer("harmony/role", write_harmony_role, text_at=()),
    Writer(
        "minimax_m2",
        write_minimax_m2,
        text_at=("before", "after"),
        verbatim=False,
        plain_keys=True,
        forbidden=("</parameter>", "<parameter name=", "<invoke name="),
    ),
    Writer(
        "minimax_m2/bare",
        write_minimax_m2_bare,
        verbatim=False,
        plain_keys=True,
        forbidden=("</parameter>", "<parameter name=", "<invoke name="),
    ),
    Writer(
        "minimax_m3",
        write_minimax_m3,
        text_at=("before", "after"),
        verbatim=False,
        plain_keys=True,
        forbidden=(M3,),
        accepts=is_flat,
    ),
    Writer(
        "glm47",
        lambda answer: write_pairs(answer, "", "\n"),
        verbatim=False,
        plain_keys=True,
        forbidden=("</arg_value>", "<arg_value>", "<tool_call>"),
    ),
    Writer(
        "longcat",
        lambda answer: write_pairs(answer, "longcat_", ""),
        verbatim=False,
        plain_keys=True,
        forbidden=("</longcat_arg_value>", "<longcat_arg_value>", "<longcat_tool_call>"),
    ),
    Writer("gemma4", write_gemma4, verbatim=False, plain_keys=True, forbidden=('<|"|>',)),
    Writer(
        "function_gemma",
        write_function_gemma,
        verbatim=False,
        plain_keys=True,
        forbidden=("<escape>",),
    ),
    Writer(
        "pythonic", write_pythonic, text_at=("before", "after"), verbatim=False, plain_keys=True
    ),
    Writer("pythonic/json", write_pythonic_json, text_at=("before", "after")),
)
