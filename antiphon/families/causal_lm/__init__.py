"""Language models that write: checkpoints in the layouts of Llama, Qwen2 and Qwen3."""

from antiphon.contracts.chat import CHAT_VOICE, AnswerVoiceRequest
from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.family import (
    Extra,
    Family,
    ItemKind,
    Measuring,
    Ref,
    StageKind,
    StageSpec,
    Task,
)

_HERE = "antiphon.families.causal_lm"

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
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra(
        "torch",
        (
            ("torch", "PyTorch"),
            ("safetensors", "safetensors"),
            ("tokenizers", "tokenizers"),
            ("jinja2", "Jinja2"),
        ),
    ),
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    measuring=Measuring(
        task="chat",
        frame_products=Ref(f"{_HERE}.checkpoint:frame_products"),
        is_usual=True,
    ),
    tasks={
        "chat": Task(
            request=ChatRequest,
            prompter=Ref(f"{_HERE}.prompt:CausalLMPrompter"),
            pipeline=(
                StageSpec(
                    "language model",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.TOKENS,
                    Ref(f"{_HERE}.runner:load_runner"),
                    weights=("*.safetensors",),
                ),
            ),
        ),
        CHAT_VOICE: Task(
            request=AnswerVoiceRequest,
            prompter=Ref(f"{_HERE}.omni.prompt:OmniVoicePrompter"),
            condition=Ref(f"{_HERE}.omni.config:has_voice"),
            pipeline=(
                StageSpec(
                    "talker",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.LATENTS,
                    ItemKind.FRAMES,
                    Ref(f"{_HERE}.omni.talker_runner:load_talker"),
                ),
                StageSpec(
                    "token2wav",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.omni.token2wav:load_token2wav"),
                ),
            ),
        ),
    },
)
