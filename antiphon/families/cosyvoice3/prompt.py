"""Prompts from requests: instructions, reference transcript, text and reference tokens."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Samples, Sampling, SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.cosyvoice3.config import (
    MEL_FRAMES_PER_TOKEN,
    TEXT_FOLDER,
    CosyVoice3Config,
    has_voice_encoder,
    load_config,
)
from antiphon.families.cosyvoice3.options import (
    FAMILY_NAME,
    MAX_POSITIONS,
    MAX_REFERENCE_TOKENS,
    CosyVoice3Options,
)
from antiphon.families.cosyvoice3.tokenizer import END_OF_PROMPT, load_tokenizer
from antiphon.families.cosyvoice3.voices import SpokenVoice, load_voices, reference_arrays, voice_of
from antiphon.families.kit.cloned_voices import CODES, FEATURES, SPEAKER, CloningPrompter
from antiphon.families.kit.speech_budget import check_instructions, check_prompt_length

_BEGINNING = "You are a helpful assistant."
"""Beginning of every prompt in the published examples; instructions follow it."""
_MAX_SEGMENT_CHARACTERS = 300
_MAX_CACHED = 3 * 32  # parts of voices, up to 500 kB together per voice
_MIN_ROOM_FRAMES = 250  # ten seconds of speech, which a prompt must leave
_MIN_TOKENS_A_TEXT_TOKEN, _MAX_TOKENS_A_TEXT_TOKEN = 2, 20
_MIN_LIMIT_FRAMES = 50  # two seconds, for texts of one word
_REFERENCE = Voice(
    id="reference", name="Reference", description="The voice of the request's 'ref_audio'."
)


class CosyVoice3Prompter(CloningPrompter):
    """Builds prompts and prepares voices; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration, tokenizer and voices; raises ModelLoadError."""
        self._config = load_config(context.checkpoint)
        self._tokenizer = load_tokenizer(context.checkpoint / TEXT_FOLDER)
        self._voices = load_voices(context.checkpoint, self._config)
        clones = context.is_dummy or has_voice_encoder(context.checkpoint)
        capabilities = _capabilities(self._config, tuple(self._voices), clones=clones)
        super().__init__(capabilities, FAMILY_NAME, (SPEAKER, CODES, FEATURES), _MAX_CACHED)

    def check(self, request: SpeechRequest, recordings: Collection[str] = ()) -> None:
        """Refuse a request that is invalid with any text and voice; raises InvalidRequestError.

        Args:
            recordings: names of the options that will be recordings.
        """
        options = read_options(CosyVoice3Options, request.options)
        check_instructions(request.instructions or "")
        has_recording = options.ref_audio is not None or "ref_audio" in recordings
        if options.ref_text is not None and not has_recording:
            raise InvalidRequestError("'ref_text' needs 'ref_audio'.", param="ref_text")

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; raises InvalidRequestError."""
        options = read_options(CosyVoice3Options, request.options)
        spoken = self._voice(options, voice)
        beginning, text = _parted(request.input)
        if request.instructions and request.instructions.strip():
            check_instructions(request.instructions or "")
            beginning = f"{_BEGINNING} {request.instructions.strip()}"
        text_ids = self._tokenizer.encode(text)
        if not text_ids:
            raise InvalidRequestError("There is no text after the instructions.", param="input")
        ref_text = options.ref_text if options.ref_text is not None else spoken.ref_text
        lead, is_continued = self._lead(beginning, ref_text, spoken)
        ids = self._ids(lead + text_ids, spoken if is_continued else None)
        most = MAX_POSITIONS - _MIN_ROOM_FRAMES
        param = "ref_audio" if len(spoken.tokens) > most // 2 else "input"
        check_prompt_length(len(ids), most, param)
        limit = max(_MIN_LIMIT_FRAMES, _MAX_TOKENS_A_TEXT_TOKEN * len(text_ids))
        limit = max(min(limit, MAX_POSITIONS - len(ids)), request.sampling.least_frames)
        sampling = _sampling(request.sampling, self._config, limit)
        return Prompt(
            data=CosyVoice3Prompt(np.array(ids, np.int64)),
            num_tokens=len(text_ids),
            seed=seed,
            sampling=sampling.with_min_frames(min(_MIN_TOKENS_A_TEXT_TOKEN * len(text_ids), limit)),
            conditioning=reference_arrays(
                spoken.tokens[-MAX_REFERENCE_TOKENS:],
                spoken.mel[-MEL_FRAMES_PER_TOKEN * MAX_REFERENCE_TOKENS :],
                spoken.speaker,
            ),
            num_positions=len(ids) - 1,
            position_keys=ids[:-1],
            num_common_positions=1 + len(lead),
        )

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice; see `CloningPrompter`; raises InvalidRequestError."""
        if not self.capabilities.cloning:
            raise InvalidRequestError(
                "This checkpoint clones no voices: campplus.onnx or speech_tokenizer_v3.onnx is"
                " missing.",
                param="ref_audio",
            )
        return super().prepare_voice(samples, name=name, ref_text=ref_text)

    def _voice(self, options: CosyVoice3Options, voice: Voice) -> SpokenVoice:
        """Return the voice of the request's reference audio, or one of the checkpoint's."""
        reference = options.ref_audio
        if reference is None:
            if voice.id in self._voices:
                return self._voices[voice.id]
            if self._voices:
                raise UnknownVoiceError(voice.id, tuple(self._voices))
            raise InvalidRequestError("This model requires 'ref_audio'.", param="ref_audio")
        if not isinstance(reference, PreparedVoice):
            reference = self.prepare_voice(reference, name="reference", ref_text=options.ref_text)
        return voice_of(self._config, reference)

    def _lead(
        self, beginning: str | None, ref_text: str | None, voice: SpokenVoice
    ) -> tuple[tuple[int, ...], bool]:
        """Return the ids before the text, and whether the speech continues the reference audio.

        With instructions it does not, because they ask for another way of speaking.
        """
        encode, end = self._tokenizer.encode, self._tokenizer.end_of_prompt
        if beginning is not None:
            return (*encode(beginning), end), False
        if voice.text_ids and len(voice.tokens):
            return voice.text_ids, True
        if ref_text is None or not ref_text.strip() or not len(voice.tokens):
            return (*encode(_BEGINNING), end), False
        own, transcript = _parted(ref_text)
        return (*encode(_BEGINNING if own is None else own), end, *encode(transcript)), True

    def _ids(self, text: tuple[int, ...], continued: SpokenVoice | None) -> tuple[int, ...]:
        """Return the model's input ids; text follows speech in its embedding."""
        num_tokens, first_text_id = self._config.num_tokens, self._config.num_speech_ids
        start, turn = num_tokens, num_tokens + 2
        recording = () if continued is None else tuple(continued.tokens.tolist())
        return (start, *(first_text_id + each for each in text), turn, *recording)


def _parted(text: str) -> tuple[str | None, str]:
    """Return the part before ``<|endofprompt|>``, ``None`` if the mark is missing, and the rest."""
    before, mark, after = text.partition(END_OF_PROMPT)
    return (before, after) if mark else (None, text)


def _sampling(asked: Sampling, config: CosyVoice3Config, limit: int) -> Sampling:
    """Fill omitted sampling parameters with the checkpoint's defaults, within the text's limit."""
    defaults = Sampling(
        temperature=1.0,
        top_k=config.sampling.top_k,
        top_p=config.sampling.top_p,
        repetition_penalty=1.0,
        max_frames=limit,
    )
    chosen = asked.with_defaults(defaults)
    return replace(chosen, max_frames=min(chosen.max_frames or limit, limit))


def _capabilities(
    config: CosyVoice3Config, names: tuple[str, ...], *, clones: bool
) -> SpeechCapabilities:
    voices = tuple(Voice(id=name, name=name) for name in names)
    sample = SpeechRequest("Ready.")
    if not voices:
        silent = PreparedVoice(
            name="silent",
            family=FAMILY_NAME,
            speaker_embedding=np.zeros(config.flow.speaker_size, np.float32),
        )
        sample = SpeechRequest("Ready.", options={"ref_audio": silent})
    return SpeechCapabilities(
        sample_request=sample,
        sample_rate_hz=config.sample_rate_hz,
        voices=voices or (_REFERENCE,),
        instructions=True,
        cloning=clones,
        draws_end=True,
        needs_encoder=clones,
        max_segment_characters=_MAX_SEGMENT_CHARACTERS,
        voice_fields=("ref_audio",),
        sampling=SamplingRanges(takes_penalty=False, max_new_tokens=MAX_POSITIONS),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CosyVoice3Prompt:
    """Input of the language model.

    Attributes:
        ids: rows of the joint embedding, int64; speech begins after the last one. A request that
            resumes also has its tokens.
    """

    ids: NDArray[np.int64]
