"""Maker of checkpoints of published and of tiny sizes, without weights."""

import math
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)

CONFIGS = Path(__file__).with_name("sizes.json")
_SPACE = "\u2581"
_ASCII = [chr(code) for code in range(0x21, 0x7F)]
_CHINESE = ("你", "好")
_SPECIALS = {"<unk>": 0, "<s>": 1, "</s>": 2}
_AUDIO = ("<|audio_start|>", "<|audio_end|>", "<|audio_prompt_start|>", "<|audio_prompt_end|>")
_FIRST_AUDIO, _FIRST_BYTE = 101, 105
_MERGED = ("你", "好")


@checkpoint_maker(sizes=("tiny", "2b"))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer files."""
    configs = configs_of(CONFIGS, making.size)
    text = configs["config.json"]["lm_config"]
    num_factors = text["kv_channels"] // 2
    # Factors near those of MiniCPM4, which stretch long wavelengths most.
    factors = [round(1.0 + 0.8 * math.sqrt(k / num_factors), 6) for k in range(num_factors)]
    text["rope_scaling"] |= {"long_factor": factors, "short_factor": factors}
    configs["config.json"]["dtype"] = making.dtype
    write_configs(path, configs)
    _write_tokenizer(path)


def vocabulary() -> dict[str, int]:
    """Return a vocabulary for any text, with the audio tokens at the ids that the model expects."""
    letters = {name: 3 + index for index, name in enumerate([*_ASCII, "\u2581", *_CHINESE])}
    audio = {name: _FIRST_AUDIO + index for index, name in enumerate(_AUDIO)}
    number = {f"<0x{value:02X}>": _FIRST_BYTE + value for value in range(256)}
    return _SPECIALS | letters | audio | number | {"".join(_MERGED): _FIRST_BYTE + 256}


def _write_tokenizer(path: Path) -> None:
    """Write a tokenizer of letters and bytes in Llama's format."""
    model = models.BPE(
        vocab=vocabulary(),
        merges=[_MERGED],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in (*_SPECIALS, *_AUDIO)]
    )
    tokenizer.save(str(path / "tokenizer.json"))
