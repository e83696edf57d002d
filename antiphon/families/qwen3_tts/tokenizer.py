"""Qwen's byte-level BPE tokenizer, in which no text can name a special token.

The pattern that cuts text into words is defined here and not read from the checkpoint: some loaders
replace it, and the model was trained with this one.
"""

from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.kit.token_ids import token_ids

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English endings
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"  # letters, with one space or mark before them
    r"|\p{N}"  # digits, one by one
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"  # marks
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"  # spaces
)


class TextTokenizer:
    """Encoder of plain text; may be used from any thread."""

    def __init__(self, model: BPE) -> None:
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = NFC()
        words = Split(Regex(_WORDS), behavior="isolated")
        tokenizer.pre_tokenizer = Sequence([words, ByteLevel(False, use_regex=False)])
        self._tokenizer = tokenizer

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of ``text``, all of which is read as letters.

        ``<|im_end|>`` in a text ends nothing. Lone surrogates, which a JSON string can hold, become
        replacement characters.
        """
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return tuple(token_ids(self._tokenizer, text))


def load_tokenizer(path: Path) -> TextTokenizer:
    """Read vocab.json and merges.txt, or else tokenizer.json, of a checkpoint's directory.

    Raises:
        ModelLoadError: the files are missing or broken, or lack a byte.
    """
    vocab_file, merges_file = path / "vocab.json", path / "merges.txt"
    if vocab_file.is_file():
        merges = [_pair(merges_file, line) for line in _merge_lines(merges_file)]
        return TextTokenizer(_model(ConfigSection.read(vocab_file), merges))
    file = path / "tokenizer.json"
    if not file.is_file():
        raise ModelLoadError(f"{path}: there is neither vocab.json nor tokenizer.json")
    model = ConfigSection.read(file).section("model")
    merges = [_pair(file, merge) for merge in model.values.get("merges", ())]
    return TextTokenizer(_model(model.section("vocab"), merges))


def _merge_lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    return [line for line in lines if line and not line.startswith("#version")]


def _pair(file: Path, merge: Any) -> tuple[str, str]:
    """Return the two halves of a merge, which newer files write as a list."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2:
        raise ModelLoadError(f"{file}: {merge!r} is not a merge of two tokens")
    return parts[0], parts[1]


def _model(section: ConfigSection, merges: list[tuple[str, str]]) -> BPE:
    vocab = {token: section.integer(token) for token in section.values}
    if missing := set(ByteLevel.alphabet()) - vocab.keys():
        raise ModelLoadError(f"{section.file}: {len(missing)} bytes have no token")
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            raise ModelLoadError(f"{section.file}: a merge of '{left}' and '{right}' has no token")
    return BPE(vocab, merges)
