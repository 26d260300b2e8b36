"""From a GenerateRequest to a Sequence: defaults, limits, refusals.

Owns what this model accepts, and the defaults of requests. Runs on the render thread.
"""

from __future__ import annotations

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.settings import TextSettings
from workers.text.answer.shape import AnswerMaker
from workers.text.engine.sequence import Sequence
from workers.text.model import TextModel
from workers.text.prompt.prompter import Prompter
from workers.text.sampling.defaults import default_sampling, penalty_rule, sampling_rule, settle
from workers.text.sampling.penalty import PenaltyRule
from workers.text.sampling.repetition import LoopRule, default_rule

_MAX_STOP_STRINGS = 256
_MAX_STOP_CHARACTERS = 4096
_OPEN_END_TOKENS = 1024
# Few texts have more characters per token.
_CHARACTERS_PER_TOKEN = 16
# max_tokens of a request that asks for everything up to the end of the context.
_UNLIMITED = 2**32 - 1
_INT32_MAX = 2**31 - 1


class Intake:
    """Makes sequences for one model.

    Args:
        context_tokens: of one slot.
        budget_bytes: what all running sequences may hold.
    """

    def __init__(
        self,
        model: TextModel,
        prompter: Prompter,
        settings: TextSettings,
        context_tokens: int,
        budget_bytes: int,
    ) -> None:
        self._model = model
        self._prompter = prompter
        self._settings = settings
        self._context_tokens = context_tokens
        self._budget_bytes = budget_bytes
        self._defaults = default_sampling(settings)
        self.answers = AnswerMaker(model, settings, prompter.tool_template, prompter.tags)
        self._loop = default_rule(settings.loop_detection, str(model.config.get("model_type", "")))

    def make_sequence(self, request: pb.GenerateRequest) -> Sequence:
        """Return the sequence of a request, earlier attempts replayed.

        Raises:
            ServiceError: the model does not support the request, or it does not fit.
        """
        self._refuse(request)
        self._settle_stop(request.stop)
        prompt = self._encode(request)
        self._check_prompt(prompt)
        footprint = self._model.footprint
        max_tokens = self._max_tokens(request, len(prompt))
        reserved = self._reserve(request, len(prompt), max_tokens)
        caches = self._settings.cache_prompt and (
            request.cache.enabled or not request.cache.HasField("enabled")
        )
        answer = self.answers.make(request, prompt, max_tokens)
        sampling = self._settle(request)
        sequence = Sequence(
            request=request,
            prompt=prompt,
            sampling=sampling_rule(sampling),
            penalty=self._penalty(request),
            loop=self._loop_rule(request.sampling),
            output=answer.output,
            guide=answer.guide,
            must_call=answer.must_call,
            end_ids=self._end_ids(request),
            max_tokens=max_tokens,
            context_tokens=self._context_tokens,
            reserved_tokens=reserved,
            namespace=self._prompter.namespace(request) if caches else None,
            snapshots=self._snapshots(prompt) if caches and not footprint.trims else (),
            logprobs=request.logprobs.top if request.HasField("logprobs") else None,
        )
        sequence.replay()
        return sequence

    def wanted_tokens(self, request: pb.GenerateRequest) -> int:
        """Return the limit of the request, or else the worker's; -1 for none."""
        if not request.HasField("max_tokens"):
            return self._settings.predict
        return -1 if request.max_tokens == _UNLIMITED else min(request.max_tokens, _INT32_MAX)

    def _settle_stop(self, stop: pb.Stop) -> None:
        """Fill the defaults into the stop rules of a request."""
        stop.ignore_eos |= self._settings.ignore_eos
        if not stop.strings:
            stop.strings.extend(self._settings.reverse_prompt)

    def _settle(self, request: pb.GenerateRequest) -> pb.Sampling:
        """Fill the defaults into a request's sampling settings, and return them.

        Raises:
            ServiceError: a bias on a token id out of vocabulary.
        """
        settle(self._defaults, request.sampling)
        for token in request.sampling.logit_bias:
            if token >= self._model.vocab_tokens:
                raise ServiceError(
                    "invalid_request", f"token id {token} is out of vocabulary", "logit_bias"
                )
        return request.sampling

    def _penalty(self, request: pb.GenerateRequest) -> PenaltyRule:
        muted = self._model.end_ids if request.stop.ignore_eos else ()
        return penalty_rule(request.sampling, self._model.vocabulary.pieces, muted)

    def _end_ids(self, request: pb.GenerateRequest) -> frozenset[int]:
        found = set(request.stop.token_ids)
        if not request.stop.ignore_eos:
            found |= self._model.end_ids
        if request.HasField("infill"):
            found |= self._prompter.infill.end_ids
        return frozenset(found)

    def _refuse(self, request: pb.GenerateRequest) -> None:
        if any(part.HasField("media") for m in request.chat.messages for part in m.parts):
            raise ServiceError("not_supported", "This model reads text only.", "messages")
        stops = request.stop.strings
        if len(stops) > _MAX_STOP_STRINGS or sum(map(len, stops)) > _MAX_STOP_CHARACTERS:
            raise ServiceError(
                "invalid_request",
                f"At most {_MAX_STOP_STRINGS} stop strings of {_MAX_STOP_CHARACTERS} characters "
                "together are allowed.",
                "stop",
            )

    def _encode(self, request: pb.GenerateRequest) -> list[int]:
        """Return the prompt's token ids.

        Raises:
            ServiceError: the template refuses the conversation, or it is far too long.
        """
        if request.WhichOneof("prompt") not in ("chat", "text"):
            self._refuse_endless(_join_texts(request))
            return self._prompter.encode(request)
        text = self._prompter.render(request)
        self._refuse_endless(text)
        return self._prompter.tokenize(request, text)

    def _refuse_endless(self, text: str) -> None:
        """Refuse a text that is far too long after tokenizing only its beginning.

        Tokenizing all of it would take minutes, in which all other prompts wait. A text that is
        slightly too long is refused later, by its exact length.
        """
        size = _CHARACTERS_PER_TOKEN * self._context_tokens
        while 2 * size < len(text):
            count = self._prompter.count(text[:size])
            # At the cut, tokens may differ from those of the whole text.
            if count > 1.25 * self._context_tokens:
                raise self._too_long(count, "more than ")
            size *= 2

    def _too_long(self, count: int, bound: str = "") -> ServiceError:
        return ServiceError(
            "context_length_exceeded",
            # Clients look for the first words to shorten their history.
            f"This model's maximum context length is {self._context_tokens} tokens. The prompt has "
            f"{bound}{count}, and at least one must be left for the answer.",
            details={"n_prompt_tokens": count, "n_ctx": self._context_tokens},
        )

    def _check_prompt(self, prompt: list[int]) -> None:
        if not prompt:
            raise ServiceError("invalid_request", "The prompt is empty.")
        size = self._model.vocab_tokens
        for token in prompt:
            if token >= size:
                raise ServiceError(
                    "invalid_request",
                    f"token id {token} is out of vocabulary range (vocab_size {size})",
                    "prompt",
                )
        if len(prompt) >= self._context_tokens:
            raise self._too_long(len(prompt))

    def _max_tokens(self, request: pb.GenerateRequest, prompt_tokens: int) -> int:
        room = self._context_tokens - prompt_tokens
        wanted = self.wanted_tokens(request)
        return room if wanted < 0 else min(wanted, room)

    def _reserve(self, request: pb.GenerateRequest, prompt_tokens: int, max_tokens: int) -> int:
        """Return the tokens to keep memory for before the sequence starts.

        An answer without a limit reserves a page and asks for more as it grows.

        Raises:
            ServiceError: it is more than the worker ever has.
        """
        open_ended = self.wanted_tokens(request) < 0
        expected = min(max_tokens, _OPEN_END_TOKENS) if open_ended else max_tokens
        estimate = self._model.footprint.estimate_bytes(prompt_tokens + expected)
        if estimate > self._budget_bytes:
            raise ServiceError(
                "request_memory_budget_exceeded",
                f"request_memory_budget_exceeded: estimated_bytes={estimate}, "
                f"budget_bytes={self._budget_bytes}; shorten the prompt/output or lower retained "
                "cache usage",
                details={"estimated_bytes": estimate, "budget_bytes": self._budget_bytes},
            )
        return prompt_tokens + expected

    def _snapshots(self, prompt: list[int]) -> tuple[int, ...]:
        """Return where to keep the state of a cache that can't be trimmed.

        Turns begin and end with control tokens: the first long enough beginning is what other
        conversations share, the third-last is where the last message begins or ends.
        """
        least = max(1, self._settings.prompt_cache_min_prefix)
        control = self._model.vocabulary.control_ids
        turns = [index for index, token in enumerate(prompt) if token in control and index >= least]
        return tuple(sorted({turns[0], turns[-min(3, len(turns))]})) if turns else ()

    def _loop_rule(self, asked: pb.Sampling) -> LoopRule:
        if not asked.HasField("loop_detection"):
            return self._loop
        rule = asked.loop_detection
        return LoopRule(rule.max_pattern_size, rule.min_pattern_size, rule.min_count)


def _join_texts(request: pb.GenerateRequest) -> str:
    """Return the texts of a prompt that consists of pieces or of an infill."""
    gap = request.infill
    texts = [piece.text for piece in request.pieces.pieces]
    texts += [gap.prefix, gap.suffix, gap.prompt, *(snippet.text for snippet in gap.snippets)]
    return "".join(texts)
