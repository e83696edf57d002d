"""Causal language models: checkpoints in the layouts of Llama, Qwen2 and Qwen3."""

from antiphon.contracts.chat import CHAT_VOICE, AnswerVoiceRequest
from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.family import Extra, Family, ItemKind, Measuring, Task
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="causal_lm",
    title="Chat: Llama, Qwen2, Qwen3 and Qwen2.5-Omni (from text, with its own voice)",
    architectures=(
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen2_5OmniModel",
        "Qwen2_5OmniForConditionalGeneration",
        "Qwen2_5OmniThinkerForConditionalGeneration",
    ),
    files=("*.jinja", "spk_dict.pt"),
    gguf=_HERE("gguf.folder:folder_of"),
    needs_checkpoint=True,
    draws_weights=True,
    quantizes=True,
    extra=Extra("torch", ("torch", "safetensors", "tokenizers", "jinja2")),
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(
        task="chat",
        frame_products=_HERE("checkpoint:frame_products"),
        is_usual=True,
    ),
    tasks={
        "chat": Task(
            request=ChatRequest,
            prompter=_HERE("prompt:CausalLMPrompter"),
            pipeline=(
                _HERE.autoregressive(
                    "language model", produces=ItemKind.TOKENS, weights=("*.safetensors",)
                ),
            ),
        ),
        CHAT_VOICE: Task(
            request=AnswerVoiceRequest,
            prompter=_HERE("omni.prompt:OmniVoicePrompter"),
            condition=_HERE("omni.config:has_voice"),
            pipeline=(
                _HERE.autoregressive(
                    "talker", "omni.talker:load_talker", consumes=ItemKind.LATENTS
                ),
                _HERE.decoder("token2wav", "omni.token2wav:load_token2wav"),
            ),
        ),
    },
)
