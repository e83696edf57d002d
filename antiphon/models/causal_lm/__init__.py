"""Language models that write: checkpoints in the layouts of Llama, Qwen2 and Qwen3."""

from antiphon.chat_types import ChatRequest
from antiphon.models.spec import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task

_HERE = "antiphon.models.causal_lm"

FAMILY = Family(
    name="causal_lm",
    title="Chat: Llama, Qwen2, Qwen3 and the thinker of Qwen2.5-Omni (text)",
    architectures=(
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen2_5OmniModel",
        "Qwen2_5OmniForConditionalGeneration",
        "Qwen2_5OmniThinkerForConditionalGeneration",
    ),
    files=("*.jinja",),
    needs_checkpoint=True,
    extra=Extra(
        "torch",
        (
            ("torch", "PyTorch"),
            ("safetensors", "safetensors"),
            ("tokenizers", "tokenizers"),
            ("jinja2", "Jinja2"),
        ),
    ),
    inspector=Ref(f"{_HERE}.checkpoint_info:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
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
        )
    },
)
