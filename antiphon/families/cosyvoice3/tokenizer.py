"""Text tokenizer: Qwen2's byte-level BPE, with bracketed marks for breaths, laughter and phonemes.

The checkpoint's files do not contain the marks: the published code adds them, in this order.
"""

from pathlib import Path

from tokenizers import AddedToken
from tokenizers.models import BPE

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.bpe_files import byte_level_model, read_merges
from antiphon.families.kit.token_ids import qwen_tokenizer, token_ids

END_OF_PROMPT = "<|endofprompt|>"
FIRST_ADDED_ID = 151643
"""Id of ``<|endoftext|>``, followed by ``<|im_start|>``, ``<|im_end|>`` and the marks."""

_STRUCTURE = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = tuple(Path(__file__).with_name("marks.txt").read_text(encoding="utf-8").split())
"""Marks that a text may contain: sounds, phonemes of English and of Chinese."""


class CosyVoice3Tokenizer:
    """Thread-safe text encoder."""

    def __init__(self, model: BPE, first_added_id: int) -> None:
        """Add the marks to a BPE model; ``first_added_id`` is that of ``<|endoftext|>``."""
        tokenizer = qwen_tokenizer(model)
        marks = [AddedToken(mark, special=True, normalized=False) for mark in MARKS[1:]]
        tokenizer.add_special_tokens(marks)
        self._tokenizer = tokenizer
        # Ids are assigned here, because the library uses the next free ids if a file omits some.
        base = tokenizer.get_vocab_size(with_added_tokens=False)
        self._first_mark, self._shift = base, first_added_id + len(_STRUCTURE) + 1 - base
        self.end_of_prompt = first_added_id + len(_STRUCTURE)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of ``text``, in which marks for sounds and phonemes are single tokens.

        ``<|endofprompt|>`` and the marks of conversations are encoded as plain text. Lone
        surrogates, which a JSON string can hold, become replacement characters.
        """
        ids = token_ids(self._tokenizer, text)
        return tuple(each + self._shift if each >= self._first_mark else each for each in ids)


def load_tokenizer(folder: Path) -> CosyVoice3Tokenizer:
    """Read vocab.json and merges.txt from a checkpoint's text folder; raises ModelLoadError."""
    section = ConfigSection.read(folder / "vocab.json")
    # Some files also list the added tokens.
    names = [name for name in section.values if name not in (*_STRUCTURE, *MARKS)]
    vocab = {name: section.integer(name) for name in names}
    model = byte_level_model(section.file, vocab, read_merges(folder / "merges.txt"))
    if max(vocab.values()) >= len(vocab):
        raise ModelLoadError(f"{section.file}: its numbers leave some out")
    first_added_id = section.integer(_STRUCTURE[0], FIRST_ADDED_ID)
    return CosyVoice3Tokenizer(model, first_added_id)
