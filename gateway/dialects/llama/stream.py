"""The stream of a native completion.

Owns its order: progress if requested, one event per piece of text with its tokens, and last the
response without its text. There is no `[DONE]`. Pure.
"""

from __future__ import annotations

from typing import Any

import orjson

from gateway.dialects.llama import answer, errors, timing
from gateway.dialects.llama.parsed import NativeParsed
from gateway.generation.fold import Completion, Item, fold_batch
from shared.errors import from_message
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb


class NativeStream:
    """The stream of one completion."""

    def __init__(self, parsed: NativeParsed, model: str) -> None:
        self._parsed = parsed
        self._model = model
        # Everything but the text, which is not kept.
        self._completion = Completion()
        self._has_new_line = False
        self._predicted = 0

    def feed(self, item: Item) -> bytes:
        if isinstance(item, pb.Event):
            match item.WhichOneof("event"):
                case "delta":
                    return self._feed_delta(item.delta)
                case "prompt_progress":
                    return self._feed_progress(item.prompt_progress)
                case "failed":
                    return errors.frame(from_message(item.failed.error))
        fold_batch(self._completion, [item])
        if isinstance(item, pb.Event) and item.HasField("finished"):
            return _event(self._whole())
        return b""

    def ping(self) -> bytes:
        return b""

    def _whole(self) -> dict[str, Any]:
        return answer.describe(
            self._parsed, self._model, self._completion, has_new_line=self._has_new_line
        )

    def _feed_delta(self, delta: pb.Delta) -> bytes:
        self._has_new_line = self._has_new_line or "\n" in delta.text
        self._predicted += len(delta.ids)
        more: dict[str, Any] = {"tokens": list(delta.ids)}
        if delta.HasField("timings"):
            more["timings"] = timing.describe(self._usage(), delta.timings)
        if delta.infos:
            more["completion_probabilities"] = answer.describe_infos(self._parsed, delta.infos)
        return self._frame(delta.text, more)

    def _feed_progress(self, progress: pb.PromptProgress) -> bytes:
        if not self._parsed.fields.return_progress:
            return b""
        return self._frame("", {"prompt_progress": self._progress(progress)})

    def _progress(self, progress: pb.PromptProgress) -> dict[str, Any]:
        return {
            "total": progress.total_tokens,
            "cache": self._completion.started.cached_tokens,
            "processed": progress.done_tokens,
            "time_ms": round(progress.elapsed_ms),
        }

    def _usage(self) -> common.Usage:
        """Return the token counts so far."""
        return common.Usage(
            prompt_tokens=self._completion.accepted.prompt_tokens,
            completion_tokens=self._predicted,
            cached_tokens=self._completion.started.cached_tokens,
        )

    def _frame(self, content: str, more: dict[str, Any]) -> bytes:
        fields = {
            "index": 0,
            "content": content,
            "tokens": [],
            "stop": False,
            "id_slot": self._completion.started.slot,
            "tokens_predicted": self._predicted,
            "tokens_evaluated": self._completion.accepted.prompt_tokens,
        }
        return _event(fields | more)


def _event(fields: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(fields)
