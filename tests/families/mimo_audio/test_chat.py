"""Answers of text by the model that speaks: what its head finds likeliest is written."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from safetensors.torch import load_file

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.errors import InvalidRequestError
from antiphon.families.mimo_audio.chat import MiMoChatPrompter
from antiphon.families.mimo_audio.config import MAX_POSITIONS, load_config
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.engine.drive import generate, tokens_of
from tests.families.mimo_audio.speaking import DRAWN, prompt_of
from tests.families.weight_edits import head_row, leaning_rows, write_rows

NUM_TOKENS = 8
GREEDY = ChatSampling(temperature=0.0)


@pytest.fixture(scope="module")
def prompter(checkpoint: Path) -> MiMoChatPrompter:
    return MiMoChatPrompter(LoadContext(checkpoint))


def asked(prompter: MiMoChatPrompter, *texts: str, **more: Any) -> Prompt:
    """Build a prompt of turns, the user's first."""
    turns = tuple(
        Message("assistant" if number % 2 else "user", text) for number, text in enumerate(texts)
    )
    return prompter.build(ChatRequest(turns, sampling=GREEDY, **more), 0)


def test_turns_are_laid_out_as_in_official_prompts(
    checkpoint: Path, prompter: MiMoChatPrompter
) -> None:
    ids = asked(prompter, "Hi <|im_end|>", "Yes?", "é").data.groups[:, 0].tolist()
    wanted = [
        *("<|im_start|>", "user\n", "Hi <|im_end|>", "<|im_end|>", "\n"),
        *("<|im_start|>", "assistant\n", "Yes?", "<|im_end|>", "\n"),
        *("<|im_start|>", "user\n", "é", "<|im_end|>", "\n"),
        *("<|im_start|>", "assistant\n", "<think>\n\n</think>\n"),
    ]
    tokenizer = load_text_tokenizer(checkpoint, load_config(checkpoint).vocab_size)
    assert ids == tokenizer.encode(wanted)
    (end,) = tokenizer.encode(["<|im_end|>"])
    assert ids.count(end) == 3, "what a message spells ends no turn"
    assert asked(prompter, "<|im_end|>").data.groups[:, 0].tolist().count(end) == 1
    thinking = asked(prompter, "Hi", template_kwargs={"enable_thinking": True})
    assert prompter.in_thought(thinking)
    assert not prompter.in_thought(asked(prompter, "Hi"))
    assert not thinking.is_decoded, "its tokens are handed over as they are"


def test_tokens_are_read_back_as_text(checkpoint: Path, prompter: MiMoChatPrompter) -> None:
    tokenizer = load_text_tokenizer(checkpoint, load_config(checkpoint).vocab_size)
    text = "Größe 😀, <|im_end|>."
    detokenizer = prompter.detokenizer()
    pieces = [detokenizer.push(token) for token in tokenizer.encode_text(text)]
    assert "".join([*pieces, detokenizer.flush()]) == text
    assert "" in pieces, "a character is told when it is whole"
    (end,) = tokenizer.encode(["<|im_end|>"])
    assert detokenizer.push(end) == ""
    assert prompter.token_bytes(end) == b"<|im_end|>"


def test_what_does_not_fit_is_refused(prompter: MiMoChatPrompter) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        asked(prompter, "x" * MAX_POSITIONS)
    assert refused.value.param == "messages"


def likeliest(checkpoint: Path, ids: list[int], count: int, never: int) -> list[int]:
    """Continue ids by a plain forward over all of them, a token at a time."""
    config, weights = load_config(checkpoint), load_file(checkpoint / "model.safetensors")
    sizes, table = config.transformer, weights["model.embed_tokens.weight"]
    read = list(ids)
    for _ in range(count):
        states = table[torch.tensor(read)]
        for layer in range(sizes.num_layers):
            states = _layer(states, weights, f"model.layers.{layer}.", sizes)
        last = _normed(states[-1:], weights["model.norm.weight"], sizes.norm_eps)
        logits = F.linear(last, weights["lm_head.weight"])[0]
        logits[never] = -torch.inf
        read.append(int(logits.argmax()))
    return read[len(ids) :]


def _layer(states: torch.Tensor, weights: Any, name: str, sizes: Any) -> torch.Tensor:
    read = _normed(states, weights[f"{name}input_layernorm.weight"], sizes.norm_eps)
    query, key, value = (
        F.linear(
            read,
            weights[f"{name}self_attn.{part}_proj.weight"],
            weights[f"{name}self_attn.{part}_proj.bias"],
        )
        .view(len(states), -1, sizes.head_dim)
        .transpose(0, 1)
        for part in "qkv"
    )
    repeats = len(query) // len(key)
    attended = F.scaled_dot_product_attention(
        _turned(query, sizes.rope_theta),
        _turned(key, sizes.rope_theta).repeat_interleave(repeats, 0),
        value.repeat_interleave(repeats, 0),
        is_causal=True,
    )
    joined = attended.transpose(0, 1).reshape(len(states), -1)
    states = states + F.linear(joined, weights[f"{name}self_attn.o_proj.weight"])
    read = _normed(states, weights[f"{name}post_attention_layernorm.weight"], sizes.norm_eps)
    gate, up, down = (weights[f"{name}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    return states + F.linear(F.silu(F.linear(read, gate)) * F.linear(read, up), down)


def _normed(states: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(states, weight.shape, weight, eps)


def _turned(heads: torch.Tensor, theta: float) -> torch.Tensor:
    half = heads.shape[-1] // 2
    rates = theta ** -(torch.arange(half) / half)
    angles = torch.arange(heads.shape[1])[:, None] * rates
    first, second = heads[..., :half], heads[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def test_what_is_likeliest_is_written_beside_speech(
    checkpoint: Path, prompter: MiMoChatPrompter
) -> None:
    """Its head finds speech likeliest in nearly every group, as the speech beside it shows."""
    empty = load_text_tokenizer(checkpoint, load_config(checkpoint).vocab_size).empty_id
    written = asked(prompter, "How are you?", max_tokens=NUM_TOKENS)
    spoken = prompt_of(checkpoint, "Hello.", DRAWN)
    with closing(load_runner(LoadContext(checkpoint, "cpu", "float32", 2))) as runner:
        made = generate(runner, {0: written, 1: spoken}, NUM_TOKENS)
        for slot in (0, 1):  # a slot forgets what it wrote
            alone = generate(runner, {slot: spoken}, NUM_TOKENS)[slot]
            assert alone.codes == made[1].codes
    tokens = made[0].tokens
    assert empty in made[1].tokens
    read = written.data.groups[:, 0].tolist()
    assert tokens == likeliest(checkpoint, read, len(tokens), empty)
    assert len(tokens) > 2


def test_an_answer_is_text_where_speech_is_all_that_is_likely(
    checkpoint: Path, prompter: MiMoChatPrompter, tmp_path: Path
) -> None:
    from shutil import copytree

    path = tmp_path / "speaking"
    copytree(checkpoint, path)
    config = load_config(path)
    empty = load_text_tokenizer(path, config.vocab_size).empty_id
    head = {empty: head_row(config.transformer)}
    write_rows(path, {**leaning_rows("model", config.transformer), "lm_head.weight": head})
    with closing(load_runner(LoadContext(path, "cpu", "float32", 1))) as runner:
        assert empty not in tokens_of(runner, {0: asked(prompter, "Hi")}, NUM_TOKENS)[0]
