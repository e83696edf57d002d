"""Request fields specific to this family, and the voice conditioning that they describe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.well_formed import StrictOptions
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import ContinuedRecording, Reference
from antiphon.families.voxcpm2.config import (
    DEFAULT_GUIDANCE,
    DEFAULT_STEPS,
    MAX_GUIDANCE,
    MAX_STEPS,
    MIN_GUIDANCE,
    MIN_STEPS,
)
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE, Patches

FAMILY_NAME = "voxcpm2"
_MAX_TEXT_CHARACTERS = 2000


class VoxCPM2Options(StrictOptions):
    """Request options beyond the fields shared by all families."""

    ref_audio: Reference | None = Field(None, description="A recording of the voice to speak with.")
    ref_text: str | None = Field(
        None,
        max_length=_MAX_TEXT_CHARACTERS,
        description="Transcript of 'ref_audio': the speech then continues it, which is closer.",
    )
    prompt_audio: ContinuedRecording | None = Field(
        None, description="A recording that is continued; needs 'prompt_text'."
    )
    prompt_text: str | None = Field(
        None, max_length=_MAX_TEXT_CHARACTERS, description="Transcript of 'prompt_audio'."
    )
    cfg_value: float = Field(
        DEFAULT_GUIDANCE,
        ge=MIN_GUIDANCE,
        le=MAX_GUIDANCE,
        description="How closely speech follows text and voice.",
    )
    inference_timesteps: int = Field(
        DEFAULT_STEPS,
        ge=MIN_STEPS,
        le=MAX_STEPS,
        description="Steps from noise to speech; fewer are faster, more are finer.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Imitation:
    """Voice conditioning of a prompt.

    Attributes:
        reference: patches of the reference voice; ``None``: the model chooses one.
        spoken: patches of speech to continue; ``[0, ...]`` for none.
        text: transcript of ``spoken``.
    """

    reference: Patches | None
    spoken: Patches
    text: str = ""


def check_options(
    options: VoxCPM2Options, instructions: str, recordings: frozenset[str] = frozenset()
) -> None:
    """Refuse incompatible fields; raises InvalidRequestError.

    Args:
        instructions: instructions of the request, ``""`` for none.
        recordings: names of options that are still to be loaded.
    """
    has_reference = options.ref_audio is not None or "ref_audio" in recordings
    has_prompt = options.prompt_audio is not None or "prompt_audio" in recordings
    if options.ref_text is not None and not has_reference:
        raise _refused("ref_text", "it is the transcript of 'ref_audio', which is missing")
    if has_prompt != (options.prompt_text is not None):
        missing = "prompt_text" if has_prompt else "prompt_audio"
        raise _refused(missing, "'prompt_audio' and 'prompt_text' come together")
    for name, text in (("ref_text", options.ref_text), ("prompt_text", options.prompt_text)):
        if text is not None and not text.strip():
            raise _refused(name, "it must not be blank")
    if has_prompt and options.ref_text is not None:
        raise _refused("ref_text", "with 'prompt_audio' that is what is continued")
    if instructions and (has_prompt or options.ref_text is not None):
        raise _refused(
            "instructions", "speech that is continued ('prompt_audio', 'ref_text') keeps its manner"
        )


def choose_imitation(
    options: VoxCPM2Options,
    features: Callable[..., Mapping[str, Patches]],
    frame_size: int,
    *,
    is_instructed: bool,
) -> Imitation:
    """Return the request's voice conditioning, encoding recordings that are not prepared.

    Args:
        options: options of the request, accepted by `check_options`.
        features: `CloningPrompter.features`.
        is_instructed: whether the request has instructions; then no speech is continued.

    Raises:
        InvalidRequestError: a recording or a voice cannot be used.
    """
    nothing = np.zeros((0, frame_size - 1), np.float32)
    reference, spoken, text = None, nothing, ""
    given = options.ref_audio
    if isinstance(given, PreparedVoice):
        reference, continued = _halves(given, frame_size)
        if not is_instructed and (options.ref_text or given.ref_text):
            spoken, text = continued, options.ref_text or given.ref_text or ""
    elif given is not None:
        wanted = [REFERENCE] if options.ref_text is None else [REFERENCE, CONTINUED]
        patches = features(given, wanted)
        reference = patches[REFERENCE]
        if options.ref_text is not None:
            spoken, text = patches[CONTINUED], options.ref_text
    if options.prompt_audio is not None and options.prompt_text is not None:
        patches = features(options.prompt_audio, [CONTINUED], "prompt_audio")
        spoken = patches[CONTINUED]
        text = options.prompt_text
    return Imitation(reference, spoken, text)


def _halves(voice: PreparedVoice, frame_size: int) -> tuple[Patches, Patches]:
    patches = voice.ref_features
    if voice.family != FAMILY_NAME or patches is None:
        raise _refused(
            "ref_audio",
            f"the voice '{voice.name}' was prepared for '{voice.family}', or of no recording; this"
            f" model needs one of a recording, prepared for '{FAMILY_NAME}'",
        )
    if patches.shape[1] != frame_size - 1 or len(patches) % 2:
        raise _refused("ref_audio", f"the voice '{voice.name}' is not of a checkpoint like this")
    return patches[: len(patches) // 2], patches[len(patches) // 2 :]


def _refused(param: str, reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid '{param}': {reason}.", param=param)
