"""Qwen's byte-level BPE tokenizer, of whole text, of arriving text, and of chat turns.

No text can name a special token. The pattern that cuts text into words is not read from the
checkpoint: some loaders replace it, and the model was trained with `QWEN_WORDS`.
"""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.prompt import Piece
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.kit.formats.bpe_files import byte_level_model, merge_of, read_merges
from antiphon.families.kit.speech_budget import slow_frames
from antiphon.families.kit.token_ids import qwen_tokenizer, token_ids
from antiphon.families.qwen3_tts.config import TextTokens
from antiphon.families.qwen3_tts.prompt_layout import Ids, MoreText

Encode: TypeAlias = Callable[[str], Ids]
"""Plain text to ids, from any thread; all is letters: ``<|im_end|>`` in it ends nothing."""


def load_tokenizer(path: Path) -> Encode:
    """Read vocab.json and merges.txt, or else tokenizer.json; raises ModelLoadError."""
    vocab_file, merges_file = path / "vocab.json", path / "merges.txt"
    if vocab_file.is_file():
        section, merges = ConfigSection.read(vocab_file), read_merges(merges_file)
    else:
        file = path / "tokenizer.json"
        if not file.is_file():
            raise ModelLoadError(f"{path}: there is neither vocab.json nor tokenizer.json")
        model = ConfigSection.read(file).section("model")
        section = model.section("vocab")
        merges = [merge_of(file, merge) for merge in model.values.get("merges", ())]
    vocab = dict(section.values)
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            section.integer(token)  # raises
    tokenizer = qwen_tokenizer(byte_level_model(section.file, vocab, merges))
    return lambda text: tuple(token_ids(tokenizer, text))


_NUM_ROLE_IDS = 3


class ChatTemplate:
    """Template of the text parts of a prompt."""

    def __init__(self, encode: Encode, tokens: TextTokens) -> None:
        self._encode = encode
        self._tokens = tokens

    def spoken(self, text: str) -> tuple[Ids, Ids]:
        """Return the role and the ids of a text to be spoken.

        They are cut by number, as in the official code: a newline at the start of a text merges
        into the role.
        """
        ids = (self._tokens.im_start, *self._encode(f"assistant\n{text}"))
        return ids[:_NUM_ROLE_IDS], ids[_NUM_ROLE_IDS:]

    def begun(self, text: str) -> tuple[Ids, Ids, str]:
        """Return the role and the first ids of a text that may continue, and its remainder.

        The remainder is all but the leading newlines, which are tokenized together with the role.
        """
        num_spaces = len(text) - len(text.lstrip())
        num_read = 1 + max(text.rfind("\n", 0, num_spaces), text.rfind("\r", 0, num_spaces))
        return *self.spoken(text[:num_read]), text[num_read:]

    def instructions(self, text: str) -> Ids:
        """Return a user turn with the instructions; nothing for ``""``."""
        if not text:
            return ()
        ids = self._encode(f"user\n{text}")
        return (self._tokens.im_start, *ids, self._tokens.im_end, *self._encode("\n"))


class StreamingTokenizer:
    """Incremental tokenizer of a text that is still arriving, and source of its pieces.

    Attributes:
        num_slow_frames: `slow_frames` of the text whose ids were returned.
        num_frames_allowed: frames that these ids suffice for; negative while text beside the
            reference is missing.
    """

    def __init__(self, encode: Encode, end_id: int, budget: Callable[[int], int]) -> None:
        """Start without text; ``budget`` maps slow frames to a frame limit, see `frame_budget`."""
        self.num_slow_frames = 0
        self.num_frames_allowed = 0
        self._encode = encode
        self._end_id = end_id
        self._budget = budget
        self._waiting = ""
        self._is_blank = True

    def cut(self, text: str) -> Ids:
        """Add text; return the ids that have become final."""
        self._is_blank = self._is_blank and not text.strip()
        waiting = self._waiting + text
        cut = _last_certain_cut(waiting)
        self._waiting = waiting[cut:]
        return self._ids(waiting[:cut])

    def push(self, text: str) -> Piece | None:
        """Add text; return its piece, or ``None`` if no id is final yet."""
        ids = self.cut(text)
        self.num_frames_allowed += len(ids)
        return self._piece(ids, max(0, self.num_frames_allowed), len(ids)) if ids else None

    def close(self) -> Piece:
        """Return the last piece; raises InvalidRequestError if the whole text was empty."""
        if self._is_blank:
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        ids, self._waiting = self._ids(self._waiting), ""
        return self._piece((*ids, self._end_id), None, len(ids))

    def _ids(self, text: str) -> Ids:
        self.num_slow_frames += slow_frames(text)
        return self._encode(text) if text else ()

    def _piece(self, ids: Ids, num_frames_allowed: int | None, num_tokens: int) -> Piece:
        data = MoreText(ids, self._budget(self.num_slow_frames))
        return Piece(data=data, num_frames_allowed=num_frames_allowed, num_tokens=num_tokens)


def _last_certain_cut(text: str) -> int:
    """Return the last cut between words that further text cannot change, or 0."""
    for place in range(len(text) - 1, 0, -1):
        before, after = unicodedata.category(text[place - 1]), unicodedata.category(text[place])
        if before[0] in "LN" and after[0] in "ZPS":
            return place
    return 0
