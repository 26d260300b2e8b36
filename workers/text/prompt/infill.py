"""Prompts for infill: the text missing between a prefix and a suffix.

Owns the control tokens of such prompts and their order. Client texts are plain text: one that
contains the name of such a token is refused, since it could end the gap. Runs on the render
thread; immutable after construction.
"""

from __future__ import annotations

from typing import Any, Final

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

# Role → the names of its token in different models. Source: the vocabularies of Qwen2.5-Coder,
# StarCoder, Granite, DeepSeek-Coder, CodeLlama and GLM.
_NAMES: Final = {
    "prefix": (
        "<|fim_prefix|>",
        "<fim_prefix>",
        "<fim-prefix>",
        "<\uff5cfim\u2581begin\uff5c>",
        "<|code_prefix|>",
        "<PRE>",
        "\u2581<PRE>",
    ),
    "suffix": (
        "<|fim_suffix|>",
        "<fim_suffix>",
        "<fim-suffix>",
        "<\uff5cfim\u2581hole\uff5c>",
        "<|code_suffix|>",
        "<SUF>",
        "\u2581<SUF>",
    ),
    "middle": (
        "<|fim_middle|>",
        "<fim_middle>",
        "<fim-middle>",
        "<\uff5cfim\u2581end\uff5c>",
        "<|code_middle|>",
        "<MID>",
        "\u2581<MID>",
    ),
    "padding": ("<|fim_pad|>", "<fim_pad>", "<fim-pad>"),
    "repository": ("<|repo_name|>", "<|fim_repo|>", "<repo_name>", "<reponame>", "<REPO>"),
    "file": ("<|file_sep|>", "<file_sep>", "<|file_separator|>"),
}
_NEEDED: Final = ("prefix", "suffix", "middle")
# Models expect a repository name; which one does not matter.
_REPOSITORY: Final = "repository\n"
_SNIPPET_MARK: Final = "\n\n--- snippet ---\n\n"


class Infill:
    """Makes infill prompts with one tokenizer.

    Args:
        spm: put the suffix before the prefix.

    Attributes:
        end_ids: tokens that end the answer because they begin another file.
    """

    def __init__(self, tokenizer: Any, *, spm: bool = False) -> None:
        self._tokenizer = tokenizer
        self._spm = spm
        vocabulary = tokenizer.get_vocab()
        self._markers = {
            role: found
            for role, names in _NAMES.items()
            if (found := next((name for name in names if name in vocabulary), None))
        }
        self._ids = {role: int(vocabulary[name]) for role, name in self._markers.items()}
        ends = ("padding", "repository", "file")
        self.end_ids = frozenset(self._ids[role] for role in ends if role in self._ids)

    @property
    def markers(self) -> worker_pb2.InfillMarkers:
        """The names of the prefix, suffix and middle tokens."""
        return worker_pb2.InfillMarkers(**{r: self._markers.get(r, "") for r in _NEEDED})

    def encode(self, gap: pb.Infill) -> list[int]:
        """Return the token ids of a prompt.

        Raises:
            ServiceError: the model lacks the tokens, or a text contains the name of one.
        """
        if any(role not in self._ids for role in _NEEDED):
            raise ServiceError("not_supported", "Infill is not supported by this model.")
        self._refuse_markers(gap)
        before = [self._ids["prefix"], *self._plain(gap.prefix), *self._plain(gap.prompt)]
        after = [self._ids["suffix"], *self._plain(gap.suffix)]
        parts = after + before if self._spm else before + after
        return [*self._beginning(), *self._context(gap), *parts, self._ids["middle"]]

    def _context(self, gap: pb.Infill) -> list[int]:
        """Return the other files, each after its name if the model has a token for files."""
        if not gap.snippets:
            return []
        ids: list[int] = []
        if "repository" in self._ids:
            ids += [self._ids["repository"], *self._plain(_REPOSITORY)]
        for snippet in gap.snippets:
            ids += self._file(snippet.filename) + self._plain(snippet.text)
        return ids + (self._file("filename") if "file" in self._ids else [])

    def _file(self, name: str) -> list[int]:
        if "file" not in self._ids:
            return self._plain(_SNIPPET_MARK)
        return [self._ids["file"], *self._plain(f"{name}\n")]

    def _beginning(self) -> list[int]:
        """Return the begin-of-sequence token if the tokenizer adds one."""
        bos = self._tokenizer.bos_token_id
        added = self._tokenizer.encode("", add_special_tokens=True)
        return [bos] if bos is not None and added[:1] == [bos] else []

    def _plain(self, text: str) -> list[int]:
        return list(
            self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        )

    def _refuse_markers(self, gap: pb.Infill) -> None:
        texts = {
            "input_prefix": gap.prefix,
            "input_suffix": gap.suffix,
            "prompt": gap.prompt,
        }
        for index, snippet in enumerate(gap.snippets):
            texts[f"input_extra[{index}].filename"] = snippet.filename
            texts[f"input_extra[{index}].text"] = snippet.text
        for path, text in texts.items():
            for marker in self._markers.values():
                if marker in text:
                    raise ServiceError(
                        "invalid_request", f"{path} must not contain the token {marker}", path
                    )
