"""The prior's processor of made-up checkpoints: ids of codes first, then bytes of text."""

from typing import Any

from antiphon.families.glm_image.random_configs import (
    Size,
    image_processor_config,
    num_codes,
    num_image_ids,
)

_SPECIALS = ("<|endoftext|>", "[gMASK]", "<sop>", "<eop>", "<|user|>", "<|assistant|>", "<|image|>")
_FIRST_SPECIAL = 167841  # of the published vocabulary
_PUBLISHED_VOCABULARY = 168064


def special_ids(size: Size) -> dict[str, int]:
    """Return the ids of tokens that are neither codes nor text."""
    first = num_image_ids(size) + 256 if size == "tiny" else _FIRST_SPECIAL
    ids = {name: first + index for index, name in enumerate(_SPECIALS)}
    start = num_codes(size)
    return ids | {_code(start): start, _code(start + 1): start + 1}


def vocab_size(size: Size) -> int:
    """Return the rows of the embedding."""
    used = max(special_ids(size).values()) + 1
    return -(-used // 8) * 8 if size == "tiny" else _PUBLISHED_VOCABULARY


def random_processor(size: Size) -> Any:
    """Return a processor; text is bytes, without a merge."""
    from transformers import GlmImageImageProcessorPil, GlmImageProcessor

    kind: Any = GlmImageProcessor
    return kind(
        image_processor=GlmImageImageProcessorPil(**image_processor_config(size)),
        tokenizer=_tokenizer(size),
        chat_template=_chat_template(size),
    )


def _tokenizer(size: Size) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    specials, start = special_ids(size), num_codes(size)
    vocabulary = {_code(index): index for index in range(num_image_ids(size))}
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary |= {letter: num_image_ids(size) + index for index, letter in enumerate(letters)}
    vocabulary |= specials
    tokenizer: Any = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    kind: Any = PreTrainedTokenizerFast
    wrapped = kind(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",
        eos_token=_code(start + 1),
        padding_side="left",
        model_max_length=128000,
        extra_special_tokens={
            "image_token": "<|image|>",
            "grid_bos_token": "<sop>",
            "grid_eos_token": "<eop>",
            "bos_token": _code(start),
        },
    )
    wrapped.add_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    wrapped.chat_template = _chat_template(size)
    return wrapped


def _chat_template(size: Size) -> str:
    start = num_codes(size)
    image = f"{_code(start)}<|image|>{_code(start + 1)}"
    return (
        "[gMASK]<sop>{%- for m in messages %}<|{{ m.role }}|>"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
        "{% if c.type == 'image' %}" + image + "{% elif c.type == 'text' %}{{ c.text }}{% endif %}"
        "{% endfor %}{% endif %}{% endfor %}"
    )


def _code(index: int) -> str:
    return f"<|dit_token_{index}|>"
