"""Text tokenizer that ignores special tokens in a text, except those of speakers.

``<|speaker:1|>`` is a token if the vocabulary has it; texts with several speakers need it.
"""

import base64
import json
import re
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE

from antiphon.contracts.config_file import ConfigSection
from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.config import RANKS_FILE, TOKENIZER_FILE
from antiphon.families.kit.token_decoder import halves_of, name_of_bytes
from antiphon.families.kit.token_ids import byte_level_bpe, token_ids

_SPEAKER = re.compile(r"<\|speaker:\d+\|>")
_S1_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English endings
    r"|\p{P}"  # punctuation, one by one
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"  # letters, with one space or sign before them
    r"|\p{N}"  # digits, one by one
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"  # symbols
    r"|\s*[\r\n]+|\s+\?!\S|\s+"  # spaces; the middle one is a typo that training used as well
)


class FishTextTokenizer:
    """Thread-safe encoder of plain text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``; ``<|im_end|>`` in it is plain text and ends nothing."""
        return token_ids(self._tokenizer, text)


def load_tokenizer(path: Path) -> FishTextTokenizer:
    """Read tokenizer.json, or else tokenizer.tiktoken; raises ModelLoadError."""
    file = path / TOKENIZER_FILE
    if file.is_file():
        return FishTextTokenizer(_without_specials(file))
    return FishTextTokenizer(_of_ranks(path / RANKS_FILE))


def _without_specials(file: Path) -> Tokenizer:
    """Read a tokenizer without added tokens except those of speakers."""
    state = dict(ConfigSection.read(file).values)
    added = state.get("added_tokens") or []
    state["added_tokens"] = [each for each in added if _SPEAKER.fullmatch(each.get("content", ""))]
    state["post_processor"] = state["truncation"] = state["padding"] = None
    return loaded(lambda: Tokenizer.from_str(json.dumps(state)), f"{file}: cannot be read")


def _of_ranks(file: Path) -> Tokenizer:
    """Build a byte-level BPE from a file with a token and its rank in each line."""
    ranks: dict[bytes, int] = {}
    try:
        for line in file.read_text(encoding="ascii").splitlines():
            written, _, rank = line.partition(" ")
            if written and written != "=":
                ranks[base64.b64decode(written, validate=True)] = int(rank)
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    if missing := {bytes([value]) for value in range(256)} - ranks.keys():
        raise ModelLoadError(f"{file}: {len(missing)} bytes have no token")
    named = {token: name_of_bytes(token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        if len(token) > 1:
            left, right = halves_of(token, ranks)
            merges.append((named[left], named[right]))
    model = BPE({named[token]: rank for token, rank in ranks.items()}, merges)
    return byte_level_bpe(model, _S1_WORDS)
