"""Qwen3-TTS in native PyTorch: a talker, a predictor inside each frame and a streaming codec."""

from antiphon.models.qwen3_tts.options import FAMILY_NAME, Qwen3TTSOptions
from antiphon.models.spec import Extra, Family, Measuring, PipelineSpec, Ref, StageKind, StageSpec

_HERE = "antiphon.models.qwen3_tts"

# Sampling defaults are the checkpoint's own (generation_config.json): the prompter fills them in.
FAMILY = Family(
    name=FAMILY_NAME,
    title="Qwen3-TTS 12 Hz, 0.6B and 1.7B: built-in, designed and cloned voices in ten languages",
    architectures=("Qwen3TTSForConditionalGeneration",),
    needs_checkpoint=True,
    prompter=Ref(f"{_HERE}.prompt:Qwen3TTSPrompter"),
    options=Qwen3TTSOptions,
    recordings=("ref_audio",),
    extra=Extra(
        "torch",
        (("torch", "PyTorch"), ("safetensors", "safetensors"), ("tokenizers", "tokenizers")),
    ),
    inspector=Ref(f"{_HERE}.checkpoint_info:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    measuring=Measuring(
        Ref(f"{_HERE}.bench_spec:make_endless"), Ref(f"{_HERE}.bench_spec:frame_products")
    ),
    pipeline=PipelineSpec(
        (
            StageSpec("talker", StageKind.AUTOREGRESSIVE, Ref(f"{_HERE}.runner:load_runner")),
            StageSpec("codec", StageKind.DECODER, Ref(f"{_HERE}.codec_stage:load_codec")),
        )
    ),
)
