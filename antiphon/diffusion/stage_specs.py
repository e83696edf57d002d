"""Usual stages of families on components of diffusers, from the text encoder to the VAE."""

from antiphon.contracts.family import ItemKind, Ref, StageKind, StageSpec


def text_encoder_stage(
    factory: Ref,
    *folders: str,
    consumes: ItemKind = ItemKind.TEXT,
    max_concurrency: int | None = None,
) -> StageSpec:
    """Return the stage of the text encoder, and of the components in other ``folders``."""
    return StageSpec(
        "text_encoder",
        StageKind.GENERATOR,
        consumes,
        ItemKind.LATENTS,
        factory,
        max_concurrency=max_concurrency,
        weights=_files("text_encoder", *folders),
    )


def denoiser_stage(factory: Ref, *folders: str) -> StageSpec:
    """Return the stage of the transformer, and of those in other ``folders``."""
    weights, latents = _files("transformer", *folders), ItemKind.LATENTS
    return StageSpec("denoiser", StageKind.DIFFUSION, latents, latents, factory, weights=weights)


def vae_stage(
    factory: Ref, produces: ItemKind = ItemKind.IMAGE, max_concurrency: int | None = None
) -> StageSpec:
    return StageSpec(
        "vae",
        StageKind.GENERATOR,
        ItemKind.LATENTS,
        produces,
        factory,
        max_concurrency=max_concurrency,
        weights=_files("vae"),
    )


def _files(*folders: str) -> tuple[str, ...]:
    return tuple(f"{folder}/*.safetensors" for folder in folders)
