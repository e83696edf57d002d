"""Prompts from requests: checks against the models' capabilities, and ids.

S2 reads a conversation:

    <|im_start|>system\\n convert the provided text to speech <|im_end|>\\n
    <|im_start|>user\\n TEXT <|im_end|>\\n
    <|im_start|>assistant\\n <|voice|>

With a reference the first turn continues: " reference to the following:\\n\\nText:\\n", its text
with its speaker, "\\n\\nSpeech:\\n", its frames. S1 alternates texts and frames:

    <|interleave|> <|speaker:0|> TEXT OF REFERENCE, FRAMES <|im_end|> <|speaker:0|> TEXT

Parts are encoded separately, as in the official code.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.fish_speech.config import (
    IM_END,
    IM_START,
    INTERLEAVE,
    MAX_POSITIONS,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    VOICE,
    FishSpeechConfig,
    Layout,
    SpecialTokens,
    load_config,
)
from antiphon.families.fish_speech.options import FAMILY_NAME, FishSpeechOptions
from antiphon.families.fish_speech.tokenizer import load_tokenizer
from antiphon.families.kit.cloned_voices import CloningPrompter
from antiphon.families.kit.mixed.prompt import FRAME, MixedPrompt
from antiphon.families.kit.speech_budget import (
    FRAME_RATE_HZ,
    check_prompt_length,
    frame_budget,
    slow_frames,
)

Codes: TypeAlias = NDArray[np.int64]

_SAMPLING = {
    Layout.S2: Sampling(temperature=1.0, top_k=30, top_p=0.9),
    Layout.S1: Sampling(temperature=0.8, top_k=30, top_p=0.8),
}
"""Sampling defaults of the official code for each format."""
_MAX_SEGMENT_CHARACTERS = 1000
"""About a minute. Without reference audio, the voice may change between segments."""
_RESERVED_FRAMES = 215
"""Positions that a prompt leaves for speech, 10 s."""
_FRAMES_A_BYTE = 6
"""Maximum frames per byte of UTF-8: three times slow speech in most scripts."""
_MIN_FRAMES = 1  # speech is never empty
_REFERENCE = "reference"
_VOICE = Voice(
    id="any",
    name="Any",
    description="A voice that the seed draws; that of the recording, if there is one.",
)


Encode: TypeAlias = Callable[[str], list[int]]
"""Function from plain text to ids."""

NEEDED = {Layout.S2: (IM_START, IM_END, VOICE), Layout.S1: (INTERLEAVE, IM_END)}
"""Special tokens required by each format."""
_ASKED = "convert the provided text to speech"
_IMITATED = f"{_ASKED} reference to the following:\n\nText:\n"
_SPEAKER = re.compile(r"<\|speaker:\d+\|>")
_FIRST_SPEAKER = "<|speaker:0|>"


@dataclass(frozen=True, slots=True, eq=False)
class Imitated:
    """Transcript and frames of a reference voice."""

    text: str
    codes: Codes


def _turns(text: str) -> str:
    """Return a conversation with each speaker's turn on its own line, as in S2's training."""
    starts = [0, *(found.start() for found in _SPEAKER.finditer(text)), len(text)]
    turns = (text[start:stop].strip() for start, stop in pairwise(starts))
    return "\n".join(turn for turn in turns if turn)


class PromptLayout:
    def __init__(self, layout: Layout, encode: Encode, tokens: SpecialTokens) -> None:
        """Wrap a checkpoint's tokenizer, which has all tokens of `NEEDED`."""
        self._layout = layout
        self._encode = encode
        self._ids = tokens.ids

    def lay_out(self, text: str, voice: Imitated | None) -> tuple[Codes, int]:
        """Return the ids of a prompt, and the number of leading ids that do not depend on the text.

        Ids have `FRAME` for each frame of the voice; the last one is never a frame.
        """
        if self._layout is Layout.S2:
            text = _turns(text)
            after = [*self._end, *self._begun("assistant"), self._ids[VOICE]]
            before = self._conversation(voice)
        else:
            before, after = self._interleaved(voice), []
        return np.array([*before, *self._encode(text), *after], np.int64), len(before)

    def _conversation(self, voice: Imitated | None) -> list[int]:
        system = self._encode(_ASKED)
        if voice is not None:
            has_speaker = _SPEAKER.search(voice.text) is not None
            transcript = voice.text if has_speaker else f"{_FIRST_SPEAKER}{voice.text}"
            parts = (_IMITATED, transcript, "\n\nSpeech:\n")
            system = [id_ for part in parts for id_ in self._encode(part)]
            system += [FRAME] * len(voice.codes)
        return [*self._begun("system"), *system, *self._end, *self._begun("user")]

    @property
    def _end(self) -> list[int]:
        return [self._ids[IM_END], *self._encode("\n")]

    def _begun(self, role: str) -> list[int]:
        return [self._ids[IM_START], *self._encode(f"{role}\n")]

    def _interleaved(self, voice: Imitated | None) -> list[int]:
        speaker = self._encode(_FIRST_SPEAKER)
        ids = [self._ids[INTERLEAVE]]
        if voice is not None:
            ids += [*speaker, *self._encode(voice.text), *[FRAME] * len(voice.codes)]
            ids.append(self._ids[IM_END])
        return [*ids, *speaker]


class FishSpeechPrompter(CloningPrompter):
    """Builds prompts and prepares voices; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = config = load_config(context.checkpoint)
        for name in NEEDED[config.layout]:
            if name not in config.tokens.ids:
                raise ModelLoadError(f"{context.checkpoint}: the tokenizer lacks {name}")
        encode = load_tokenizer(context.checkpoint).encode
        self._layout = PromptLayout(config.layout, encode, config.tokens)
        capabilities = SpeechCapabilities(
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=(_VOICE,),
            cloning=True,
            draws_end=True,
            needs_encoder=True,
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
            voice_fields=("ref_audio",),
            sampling=SamplingRanges(takes_penalty=False, max_new_tokens=MAX_POSITIONS),
        )
        super().__init__(capabilities, FAMILY_NAME)

    def check(self, request: SpeechRequest, recordings: Collection[str] = ()) -> None:
        """Refuse a request that is invalid with any text and voice; raises InvalidRequestError.

        Args:
            recordings: names of the options that will be recordings.
        """
        options = read_options(FishSpeechOptions, request.options)
        if "ref_audio" in recordings:
            _checked_text(options.ref_text)
        elif options.ref_text is not None and options.ref_audio is None:
            raise InvalidRequestError(
                "'ref_text' is the transcript of 'ref_audio'; it is allowed only with it.",
                param="ref_text",
            )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; raises InvalidRequestError."""
        self.check(request)
        imitated = self._imitated(read_options(FishSpeechOptions, request.options))
        text = request.input.strip()
        ids, num_common = self._layout.lay_out(text, imitated)
        budget = frame_budget(slow_frames(text), is_limited=request.sampling.max_frames is not None)
        num_frames = round(budget / FRAME_RATE_HZ * SAMPLE_RATE_HZ / SAMPLES_PER_FRAME)
        num_frames = max(num_frames, _FRAMES_A_BYTE * len(text.encode("utf-8", "replace")))
        num_frames = max(num_frames, request.sampling.least_frames)
        nothing = np.empty((0, self._config.num_codebooks), np.int64)
        codes = nothing if imitated is None else imitated.codes
        data = MixedPrompt(ids=ids, frames=codes, max_frames=num_frames)
        param = "ref_text" if len(codes) else "input"
        check_prompt_length(len(ids), MAX_POSITIONS - _RESERVED_FRAMES, param)
        sampling = request.sampling.with_defaults(_SAMPLING[self._config.layout])
        return Prompt(
            data=data,
            num_tokens=len(ids) - len(codes),
            seed=seed,
            sampling=sampling.with_min_frames(_MIN_FRAMES),
            num_positions=len(ids) - 1,
            position_keys=data.position_keys,
            num_common_positions=num_common,
        )

    def _imitated(self, options: FishSpeechOptions) -> Imitated | None:
        voice = options.ref_audio
        if voice is None:
            return None
        if not isinstance(voice, PreparedVoice):
            text = _checked_text(options.ref_text)
            voice = self.prepare_voice(voice, name=_REFERENCE, ref_text=text)
        if voice.family != FAMILY_NAME or voice.ref_codes is None:
            raise InvalidRequestError(
                f"The voice '{voice.name}' was prepared for '{voice.family}'; this model needs one"
                f" that was prepared for '{FAMILY_NAME}'.",
                param="ref_audio",
            )
        _check_codes(self._config, voice.ref_codes)
        return Imitated(_checked_text(options.ref_text or voice.ref_text), voice.ref_codes)


def _checked_text(text: str | None) -> str:
    if text is None or not text.strip():
        raise InvalidRequestError(
            "A recording to imitate needs 'ref_text': the words that are spoken in it.",
            param="ref_text",
        )
    return text.strip()


def _check_codes(config: FishSpeechConfig, codes: NDArray[np.int64]) -> None:
    """Refuse codes outside their tables; codes may come from a file."""
    limits = [config.tokens.num_semantic] + [config.residual_codes] * (config.num_codebooks - 1)
    has_shape = codes.ndim == 2 and codes.shape[1] == len(limits) and len(codes) > 0
    if not (has_shape and codes.min() >= 0 and (codes.max(axis=0) < limits).all()):
        raise InvalidRequestError(
            f"The reference's codes must be a table of {len(limits)} columns of numbers below"
            f" {limits[0]}, and from the second column on below {limits[-1]}.",
            param="ref_audio",
        )
