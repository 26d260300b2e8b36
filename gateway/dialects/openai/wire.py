"""The fields of OpenAI chat and completion bodies: those read, ignored and refused.

Owns the form of the JSON, not its meaning. The tables list the known fields that are not served;
the documentation is generated from them. Pure data.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from gateway.dialects.sampling import SamplingFields
from gateway.dialects.unserved import Ignored, Refused


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """A refusal of the assistant; read as text."""

    refusal: str


class ImageUrl(msgspec.Struct):
    """The address of an image."""

    url: str
    detail: Literal["low", "high", "auto"] | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image; some clients send the address without an object around it."""

    image_url: ImageUrl | str


class VideoUrl(msgspec.Struct):
    """The address of a video."""

    url: str
    fps: float | None = None


class VideoPart(msgspec.Struct, tag_field="type", tag="video_url"):
    video_url: VideoUrl | str


class InputAudio(msgspec.Struct):
    """Audio as base64 or as a data URI."""

    data: str
    format: str | None = None


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    input_audio: InputAudio


Part = TextPart | RefusalPart | ImagePart | VideoPart | AudioPart


class FunctionCall(msgspec.Struct):
    """A function's name and arguments, which are a JSON string or an object."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b'""')


class ToolCall(msgspec.Struct):
    """A tool call of an assistant turn."""

    function: FunctionCall
    id: str | None = None
    type: Literal["function"] | None = None


class ChatMessage(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: Any = None


class ToolFunction(msgspec.Struct):
    """The fields of a tool that are checked; the tool is forwarded unchanged."""

    name: str
    parameters: dict[str, Any] | None = None


class ChatTool(msgspec.Struct):
    function: ToolFunction
    type: Literal["function"]


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class TextFields(SamplingFields, kw_only=True):
    """Fields of chat and text completions."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: dict[str, msgspec.Raw] | None = None
    grammar: str | None = None
    json_schema: msgspec.Raw = msgspec.Raw(b"null")
    extra_body: dict[str, msgspec.Raw] | None = None
    cache_prompt: bool | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    # Read only to be refused: see REFUSED_EVERYWHERE.
    n: Any = None
    best_of: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    structured_outputs: Any = None
    mirostat: Any = None
    dynatemp_range: Any = None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class TurnFields(TextFields, kw_only=True):
    """Fields of chat completions and responses."""

    top_logprobs: int | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    preserve_thinking: bool | None = None


class ChatBody(TurnFields, kw_only=True):
    messages: list[ChatMessage]
    logprobs: bool | None = None
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    # Read only to be refused: see CHAT_REFUSED.
    modalities: Any = None
    audio: Any = None
    functions: Any = None
    function_call: Any = None
    web_search_options: Any = None


class CompletionBody(TextFields, kw_only=True):
    # One text, one array of token ids, or an array of either.
    prompt: str | list[str | TokenId | list[TokenId]]
    logprobs: int | None = None
    # Read only to be refused: see COMPLETION_REFUSED.
    suffix: Any = None
    echo: Any = None


# Known fields without effect, and the reason.
IGNORED_EVERYWHERE: Final[Ignored] = {
    "store": "completions are not stored",
    "metadata": "not evaluated",
    "service_tier": "there is one tier",
    "prompt_cache_retention": "the cache's own limits apply",
    "return_progress": "not part of this stream",
    "timings_per_token": "not part of this stream",
    "samplers": "the order of the samplers is fixed",
    "id_slot": "slots are assigned by the scheduler",
    "n_keep": "contexts are not shifted",
    "n_discard": "contexts are not shifted",
}
CHAT_IGNORED: Final[Ignored] = {
    **IGNORED_EVERYWHERE,
    "safety_identifier": "not evaluated",
    "verbosity": "local models do not support it",
    "prediction": "affects speed only",
    "reasoning_format": "set for the whole server",
    "reasoning_in_content": "set for the whole server",
}
COMPLETION_IGNORED: Final[Ignored] = IGNORED_EVERYWHERE

# Known fields that would change the answer and are not supported: the values without effect, and
# the message for all others.
REFUSED_EVERYWHERE: Final[Refused] = {
    "n": ((1,), "must be 1: one choice is generated per request"),
    "best_of": ((1,), "must be 1: one choice is generated per request"),
    "guided_json": ((), "is not supported: use response_format"),
    "guided_regex": ((), "is not supported: use response_format"),
    "guided_choice": ((), "is not supported: use response_format"),
    "guided_grammar": ((), "is not supported: use response_format"),
    "structured_outputs": ((), "is not supported: use response_format"),
    "mirostat": ((0,), "is not supported"),
    "dynatemp_range": ((0,), "is not supported"),
}
CHAT_REFUSED: Final[Refused] = {
    **REFUSED_EVERYWHERE,
    "modalities": ((["text"], []), 'must be ["text"]: answers are text'),
    "audio": ((), "is not supported: answers are text"),
    "functions": (([],), "is not supported: use tools"),
    "function_call": (("none", "auto"), "is not supported: use tool_choice"),
    "web_search_options": ((), "is not supported: this server does not search the web"),
}
COMPLETION_REFUSED: Final[Refused] = {
    **REFUSED_EVERYWHERE,
    "suffix": (("",), "is not supported: use /infill"),
    "echo": ((False,), "is not supported: the prompt is not repeated"),
}
