"""Prompts from requests: instructions, text, and reference recordings."""

import re
from collections.abc import Collection

import numpy as np

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.families.kit.cloned_voices import CloningPrompter, known_text
from antiphon.families.kit.speech_budget import check_instructions, check_prompt_length
from antiphon.families.voxcpm2.config import MIN_FRAMES, load_config
from antiphon.families.voxcpm2.options import (
    FAMILY_NAME,
    VoxCPM2Options,
    check_options,
    choose_imitation,
)
from antiphon.families.voxcpm2.request import (
    CONTINUED,
    REFERENCE,
    FlowSampling,
    VoxCPM2Prompt,
    frames_of,
)
from antiphon.families.voxcpm2.tokenizer import load_tokenizer

_MAX_SEGMENT_CHARACTERS = 1000
"""About a minute. Without reference audio, the voice may change between segments."""
_MAX_FRAMES_A_TOKEN, _MORE_FRAMES = 6, 10
"""Limit of frames as in the official program, beyond which the model has lost its way."""
_MIN_FRAMES_LEFT = 64
_CONTEXT_FRAMES = 3
"""Patches of continued speech that prime the decoder, as in the official program."""
_VOICE = Voice(
    id="default",
    name="Default",
    description="The voice that 'instructions' describe or 'ref_audio' brings, else any.",
)


class VoxCPM2Prompter(CloningPrompter):
    """Builds prompts and prepares voices; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = config = load_config(context.checkpoint)
        self._encode = load_tokenizer(context.checkpoint, config.vocab_size).encode
        capabilities = SpeechCapabilities(
            sample_rate_hz=config.vae.out_sample_rate,
            voices=(_VOICE,),
            instructions=True,
            cloning=True,
            draws_end=True,
            needs_encoder=True,
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
            voice_fields=("instructions", "ref_audio", "prompt_audio"),
        )
        super().__init__(capabilities, FAMILY_NAME, (REFERENCE, CONTINUED))

    def check(self, request: SpeechRequest, recordings: Collection[str] = ()) -> None:
        """Refuse a request that is invalid with any text and voice; raises InvalidRequestError.

        Args:
            recordings: names of the options that will be recordings.
        """
        options = read_options(VoxCPM2Options, request.options)
        check_options(options, _instructions(request), frozenset(recordings))

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice from the concatenated patches of both uses; see `CloningPrompter`."""
        patches = self.features(samples, (REFERENCE, CONTINUED))
        return PreparedVoice(
            name=name,
            family=FAMILY_NAME,
            ref_text=known_text(ref_text),
            ref_features=np.concatenate([patches[REFERENCE], patches[CONTINUED]]),
        )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; raises InvalidRequestError."""
        options = read_options(VoxCPM2Options, request.options)
        instructions = _instructions(request)
        check_options(options, instructions)
        frame_size, is_instructed = self._config.frame_size, bool(instructions)
        imitation = choose_imitation(
            options, self.features, frame_size, is_instructed=is_instructed
        )
        spoken_text = re.sub(r"\s+", " ", request.input)
        if instructions:
            spoken_text = f"({instructions}){spoken_text}"
        num_frames = len(self._encode(spoken_text)) * _MAX_FRAMES_A_TOKEN + _MORE_FRAMES
        ids = self._encode(imitation.text + spoken_text)
        data = VoxCPM2Prompt.of(
            ids,
            reference=imitation.reference,
            spoken=imitation.spoken,
            flow=FlowSampling(options.cfg_value, options.inference_timesteps),
            max_frames=max(num_frames, request.sampling.least_frames),
        )
        limit, spoken = self._config.max_positions - _MIN_FRAMES_LEFT, imitation.spoken
        param = "ref_audio" if len(data.frames) > limit // 2 else "input"
        check_prompt_length(len(data.ids), limit, param)
        return Prompt(
            data=data,
            num_tokens=len(ids),
            seed=seed,
            sampling=request.sampling.with_min_frames(MIN_FRAMES),
            context_frames=frames_of(spoken[-_CONTEXT_FRAMES:]) if len(spoken) else None,
            num_positions=len(data.ids) - 1,
            position_keys=data.position_keys,
            num_common_positions=data.num_reference_positions,
        )


def _instructions(request: SpeechRequest) -> str:
    """Return the instructions, ``""`` for none; raises InvalidRequestError."""
    return check_instructions(re.sub(r"\s+", " ", request.instructions or "").strip())
