"""References to a family's modules, and its stages, by the names that most folders use."""

from typing import TypedDict, Unpack

from antiphon.contracts.family import ItemKind, Ref, StageKind, StageSpec


class StageOptions(TypedDict, total=False):
    """Fields of a `StageSpec` that differ from the usual."""

    consumes: ItemKind
    produces: ItemKind
    max_concurrency: int | None
    weights: tuple[str, ...]


class Folder:
    """A family's folder, ``Folder(__name__)`` in its ``__init__``; calling it returns a `Ref`."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(self, target: str) -> Ref:
        return Ref(f"{self._package}.{target}")

    def autoregressive(
        self, name: str, target: str = "language_model:load_runner", **more: Unpack[StageOptions]
    ) -> StageSpec:
        """Return a stage that generates frames from text."""
        usual = StageOptions(consumes=ItemKind.TEXT, produces=ItemKind.FRAMES)
        return StageSpec(name, StageKind.AUTOREGRESSIVE, factory=self(target), **(usual | more))

    def decoder(
        self, name: str, target: str = "codec_stage:load_codec", **more: Unpack[StageOptions]
    ) -> StageSpec:
        """Return a stage that decodes frames to audio."""
        usual = StageOptions(consumes=ItemKind.FRAMES, produces=ItemKind.AUDIO)
        return StageSpec(name, StageKind.DECODER, factory=self(target), **(usual | more))

    def encoder(
        self,
        name: str,
        target: str = "voice_encoder:load_voice_encoder",
        **more: Unpack[StageOptions],
    ) -> StageSpec:
        """Return a stage that encodes reference audio, up to 16 recordings at a time."""
        usual = StageOptions(consumes=ItemKind.AUDIO, produces=ItemKind.LATENTS, max_concurrency=16)
        return StageSpec(name, StageKind.ENCODER, factory=self(target), **(usual | more))

    def generator(self, name: str, target: str, **more: Unpack[StageOptions]) -> StageSpec:
        """Return a stage that runs its own loop and generates audio from text."""
        usual = StageOptions(consumes=ItemKind.TEXT, produces=ItemKind.AUDIO)
        return StageSpec(name, StageKind.GENERATOR, factory=self(target), **(usual | more))

    def diffusion(self, name: str, target: str, **more: Unpack[StageOptions]) -> StageSpec:
        """Return a stage that denoises latents."""
        usual = StageOptions(consumes=ItemKind.LATENTS, produces=ItemKind.LATENTS)
        return StageSpec(name, StageKind.DIFFUSION, factory=self(target), **(usual | more))
