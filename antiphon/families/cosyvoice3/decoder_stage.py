"""Loader of flow and vocoder for the pipeline's decoder stage."""

import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3 import checkpoint as schema
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.decoder import CosyVoice3Decoder
from antiphon.families.cosyvoice3.flow import MelFlow
from antiphon.families.cosyvoice3.stream_memory import slots_that_fit
from antiphon.families.cosyvoice3.vocoder import Vocoder
from antiphon.families.cosyvoice3.weights import read_tensors
from antiphon.families.kit.loading import like_of
from antiphon.nn import kernels
from antiphon.nn.device import resolve_dtype


def load_decoder(
    context: LoadContext, *, is_batched: bool | None = None, uses_graphs: bool = True
) -> CosyVoice3Decoder:
    """Load the decoder from speech tokens to 24 kHz audio.

    Computation is in float32, except that attention on a GPU keeps keys and values in float16. If
    float32 was not requested, the flow's matrix products on a GPU are float16 in the transformer's
    layers and TF32 elsewhere, and factors in the vocoder's blocks have 22 bits.

    Args:
        context: checkpoint, device and settings of the stage.
        is_batched: whether a batch may have several rows; see `CosyVoice3Decoder`.
        uses_graphs: whether passes are CUDA graphs on a GPU.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    like = like_of(context, "float32")
    is_exact = (
        resolve_dtype(context.dtype, like.device) == torch.float32 or context.is_deterministic
    )
    with torch.inference_mode():
        flow = MelFlow.of(
            read_tensors(
                context.checkpoint / schema.FLOW_FILE,
                schema.flow_layout(config.flow),
                like=like,
                unused=schema.FLOW_UNUSED,
            ),
            config.flow,
            rounds_products=not is_exact,
            is_fused=not is_exact and kernels.run_on(like),
        )
        vocoder = Vocoder.of(
            read_tensors(
                context.checkpoint / schema.VOCODER_FILE,
                schema.vocoder_layout(config.vocoder),
                like=like,
                unused=schema.VOCODER_UNUSED,
                prefix=schema.VOCODER_PREFIX,
            ),
            config.vocoder,
            splits_products=not is_exact,
        )
    return CosyVoice3Decoder(
        flow,
        vocoder,
        sample_rate_hz=config.sample_rate_hz,
        samples_per_frame=config.samples_per_token,
        max_slots=slots_that_fit(context, config.flow, like.device),
        is_batched=False if context.is_deterministic else is_batched,
        uses_graphs=uses_graphs,
        progress=context.progress_of("decoder's graphs"),
    )
