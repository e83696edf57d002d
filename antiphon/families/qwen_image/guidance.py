"""Classifier-free guidance of a request, without torch."""

from antiphon.diffusion.image_prompt import ImagePrompt


def guidance_of(data: ImagePrompt) -> float | None:
    """Return the scale of classifier-free guidance; ``None`` without it.

    As in the pipeline of diffusers, it requires a negative prompt, which may be empty, and a scale
    above 1.
    """
    scale = data.parameters.true_cfg_scale
    if data.negative_prompt is None or scale is None or scale <= 1:
        return None
    return scale
