"""Maker of checkpoints of published and of tiny sizes, without weights.

The prior's tokenizer has ids of codes first, then bytes of text without merges.
"""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    ByT5Tokenizer,
    GlmImageImageProcessorPil,
    GlmImageProcessor,
    PreTrainedTokenizerFast,
)

from antiphon.families.glm_image.config import PRIOR_DIRECTORY, PROCESSOR_DIRECTORY
from antiphon.families.kit.random_checkpoint import (
    Json,
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)

_CONFIGS = Path(__file__).with_name("sizes.json")
_SPECIALS = ("<|endoftext|>", "[gMASK]", "<sop>", "<eop>", "<|user|>", "<|assistant|>", "<|image|>")


@checkpoint_maker(sizes=("tiny", "16b"), tasks=("base",))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration, tokenizer and processor files."""
    configs = configs_of(_CONFIGS, making.size)
    images = configs.pop(PROCESSOR_DIRECTORY)
    prior = configs[f"{PRIOR_DIRECTORY}/config.json"]
    for name in (PRIOR_DIRECTORY, "text_encoder"):
        configs[f"{name}/config.json"]["dtype"] = making.dtype
    # Random weights would end the image early if they could.
    ids = range(prior["vq_config"]["num_embeddings"], prior["text_config"]["vision_vocab_size"])
    configs[f"{PRIOR_DIRECTORY}/generation_config.json"]["suppress_tokens"] = list(ids)
    write_configs(path, configs)
    ByT5Tokenizer(extra_ids=125).save_pretrained(str(path / "tokenizer"))
    template, processor = _chat_template(prior), path / PROCESSOR_DIRECTORY
    make: Any = GlmImageProcessor
    make(
        image_processor=GlmImageImageProcessorPil(**images),
        tokenizer=_tokenizer(prior, template),
        chat_template=template,
    ).save_pretrained(str(processor))


def _tokenizer(prior: Json, template: str) -> Any:
    start, num_image_ids = prior["image_start_token_id"], prior["text_config"]["vision_vocab_size"]
    first_special = prior["text_config"]["pad_token_id"]
    specials = {name: first_special + index for index, name in enumerate(_SPECIALS)}
    specials |= {_code(index): index for index in (start, start + 1)}
    vocabulary = {_code(index): index for index in range(num_image_ids)}
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary |= {letter: num_image_ids + index for index, letter in enumerate(letters)}
    vocabulary |= specials
    tokenizer: Any = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    wrapped = make(
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
    wrapped.chat_template = template
    return wrapped


def _chat_template(prior: Json) -> str:
    start = prior["image_start_token_id"]
    image = f"{_code(start)}<|image|>{_code(start + 1)}"
    return (
        "[gMASK]<sop>{%- for m in messages %}<|{{ m.role }}|>"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
        "{% if c.type == 'image' %}" + image + "{% elif c.type == 'text' %}{{ c.text }}{% endif %}"
        "{% endfor %}{% endif %}{% endfor %}"
    )


def _code(index: int) -> str:
    return f"<|dit_token_{index}|>"
