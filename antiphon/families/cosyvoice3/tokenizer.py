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
_SOUNDS = (
    *(END_OF_PROMPT, "[breath]", "<strong>", "</strong>", "[noise]", "[laughter]", "[cough]"),
    *("[clucking]", "[accent]", "[quick_breath]", "<laughter>", "</laughter>", "[hissing]"),
    *("[sigh]", "[vocalized-noise]", "[lipsmack]", "[mn]", "<|endofsystem|>"),
)
_ENGLISH = (
    "AA AA0 AA1 AA2 AE AE0 AE1 AE2 AH AH0 AH1 AH2 AO AO0 AO1 AO2 AW AW0 AW1 AW2 AY AY0 AY1 AY2 B CH"
    " D DH EH EH0 EH1 EH2 ER ER0 ER1 ER2 EY EY0 EY1 EY2 F G HH IH IH0 IH1 IH2 IY IY0 IY1 IY2 JH K L"
    " M N NG OW OW0 OW1 OW2 OY OY0 OY1 OY2 P R S SH T TH UH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH"
)
_PINYIN = (
    "a ai an ang ao b c ch d e ei en eng f g h i ian in ing iu ià iàn iàng iào iá ián iáng iáo iè"
    " ié iòng ióng iù iú iā iān iāng iāo iē iě iōng iū iǎ iǎn iǎng iǎo iǒng iǔ j k l m n o ong ou p"
    " q r s sh t u uang ue un uo uà uài uàn uàng uá uái uán uáng uè ué uì uí uò uó uā uāi uān uāng"
    " uē uě uī uō uǎ uǎi uǎn uǎng uǐ uǒ vè w x y z zh à ài àn àng ào á ái án áng áo è èi èn èng èr"
    " é éi én éng ér ì ìn ìng í ín íng ò òng òu ó óng óu ù ùn ú ún ā āi ān āng āo ē ēi ēn ēng ě ěi"
    " ěn ěng ěr ī īn īng ō ōng ōu ū ūn ǎ ǎi ǎn ǎng ǎo ǐ ǐn ǐng ǒ ǒng ǒu ǔ ǔn ǘ ǚ ǜ"
)
MARKS = (*_SOUNDS, *(f"[{name}]" for name in (*_ENGLISH.split(), *_PINYIN.split())))
"""Marks that a text may contain."""


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
