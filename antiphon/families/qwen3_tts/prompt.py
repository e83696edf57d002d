"""Prompts from requests: checks against the checkpoint, and tokenization."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from antiphon.contracts.family import LoadContext
from antiphon.contracts.languages import resolve_language
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import max_frames_of
from antiphon.contracts.types import Samples, Sampling, SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.families.kit.cloned_voices import CODES, CloningPrompter
from antiphon.families.kit.cloned_voices import SPEAKER as SPEAKER_VECTOR
from antiphon.families.kit.speech_budget import check_prompt_length, frame_budget, slow_frames
from antiphon.families.qwen3_tts.cloning import choose_clone
from antiphon.families.qwen3_tts.config import MIN_FRAMES, CheckpointTask, GenerationDefaults
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.options import FAMILY_NAME, Qwen3TTSOptions
from antiphon.families.qwen3_tts.prompt_layout import (
    SPEAKER,
    Qwen3TTSPrompt,
    Spoken,
    language_tag,
    lay_out,
    position_keys,
)
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS, RESERVED_FRAMES
from antiphon.families.qwen3_tts.tokenizer import ChatTemplate, StreamingTokenizer, load_tokenizer
from antiphon.families.qwen3_tts.voices import (
    capabilities_of,
    check_task,
    instructions_of,
    speaker_of,
)

_MAX_CACHED = 2 * 64  # parts of a voice, up to 60 kB together


class Qwen3TTSPrompter(CloningPrompter):
    """Builds prompts and prepares voices; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = load_config(context.checkpoint)
        self._encode = load_tokenizer(context.checkpoint)
        self._turns = ChatTemplate(self._encode, self._config.tokens)
        parts = (SPEAKER_VECTOR, CODES)
        super().__init__(capabilities_of(self._config), FAMILY_NAME, parts, _MAX_CACHED)

    def check(self, request: SpeechRequest, recordings: Collection[str] = ()) -> None:
        """Refuse a request that no text and no voice could make valid."""
        options = read_options(Qwen3TTSOptions, request.options)
        check_task(self._config, options, recordings)

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; raises InvalidRequestError."""
        role, body = self._turns.spoken(request.input)
        spoken = Spoken(role=role, body=body, num_slow_frames=slow_frames(request.input))
        return self._prompt(request, voice, seed, spoken)

    def open(
        self, request: SpeechRequest, voice: Voice, seed: int
    ) -> tuple[Prompt, StreamingTokenizer]:
        """Build the prompt of a text that is still arriving, and the tokenizer of its rest.

        ``request.input`` is the text so far, never blank. The text is read beside the frames for
        any ``non_streaming_mode``.
        """
        role, first, rest = self._turns.begun(request.input)
        budget = partial(self._max_frames, request)
        feed = StreamingTokenizer(self._encode, self._config.tokens.tts_eos, budget)
        ids = (*first, *feed.cut(rest))
        feed.num_slow_frames += slow_frames(request.input[: len(request.input) - len(rest)])
        num_slow_frames = feed.num_slow_frames
        spoken = Spoken(role=role, body=ids, num_slow_frames=num_slow_frames, is_open=True)
        prompt = self._prompt(request, voice, seed, spoken)
        feed.num_frames_allowed = len(prompt.data.text) - prompt.data.num_reference_frames
        return prompt, feed

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice; see `CloningPrompter`; raises InvalidRequestError."""
        check_task(self._config, read_options(Qwen3TTSOptions, {"ref_audio": samples}))
        return super().prepare_voice(samples, name=name, ref_text=ref_text)

    def _prompt(self, request: SpeechRequest, voice: Voice, seed: int, spoken: Spoken) -> Prompt:
        config, options = self._config, read_options(Qwen3TTSOptions, request.options)
        check_task(config, options)
        instructions = instructions_of(config, request.instructions)
        is_base, is_whole = config.task is CheckpointTask.BASE, options.non_streaming_mode
        clone = choose_clone(config, options, self.prepare_parts) if is_base else None
        spoken = replace(
            spoken,
            instructions=self._turns.instructions(instructions),
            reference=self._turns.spoken(clone.text)[1] if clone else (),
        )
        speaker = speaker_of(config, voice)
        language = resolve_language(request.language, config.selectable_languages)
        prefix, text, num_common = lay_out(
            config,
            spoken,
            tag=language_tag(config, language, speaker),
            speaker_id=SPEAKER if clone else config.speakers[speaker] if speaker else None,
            # By default only cloned voices read the text beside the frames.
            streams_text=spoken.is_open or (is_base if is_whole is None else not is_whole),
        )
        data = Qwen3TTSPrompt(
            prefix=prefix,
            text=text,
            max_frames=self._max_frames(request, spoken.num_slow_frames),
            is_open=spoken.is_open,
            speaker=clone.speaker if clone else None,
            reference=clone.codes if clone else None,
            predictor_sampling=_predictor_sampling(request.sampling, options, config.generation),
        )
        limit = MAX_POSITIONS - RESERVED_FRAMES
        param = "ref_audio" if data.num_reference_frames > limit // 2 else "input"
        check_prompt_length(data.num_prefilled, limit, param)
        return Prompt(
            data=data,
            num_tokens=spoken.num_ids - len(spoken.role),
            seed=seed,
            sampling=_talker_sampling(request.sampling, config.generation),
            num_frames_allowed=data.num_frames_allowed,
            context_frames=data.reference,
            first_chunk_frames=options.initial_codec_chunk_frames or None,
            num_positions=data.num_prefilled,
            position_keys=position_keys(config, data),
            num_common_positions=min(num_common, data.num_prefilled),
        )

    def _max_frames(self, request: SpeechRequest, num_slow_frames: int) -> int:
        most = frame_budget(
            num_slow_frames,
            is_instructed=bool(instructions_of(self._config, request.instructions)),
            is_limited=request.sampling.max_frames is not None,
        )
        return max(most, request.sampling.least_frames)


def _talker_sampling(asked: Sampling, defaults: GenerationDefaults) -> Sampling:
    samples = defaults.do_sample if asked.do_sample is None else asked.do_sample
    checkpoint = Sampling(
        temperature=defaults.temperature * samples,
        top_k=defaults.top_k,
        top_p=defaults.top_p,
        repetition_penalty=defaults.repetition_penalty,
        max_frames=max_frames_of(max(1, defaults.max_new_tokens)),
    )
    return asked.with_defaults(checkpoint).with_min_frames(MIN_FRAMES)


def _predictor_sampling(
    asked: Sampling, options: Qwen3TTSOptions, defaults: GenerationDefaults
) -> Sampling:
    """Complete the sampling of later groups.

    A temperature of 0 applies to them too; ``do_sample`` does not, as in the official package.
    """
    samples = defaults.predictor_do_sample
    if asked.temperature == 0 and asked.do_sample is not False:
        samples = False
    if options.subtalker_dosample is not None:
        samples = options.subtalker_dosample
    temperature = defaults.predictor_temperature * samples
    asked_of_predictor = Sampling(
        temperature=0.0 if options.subtalker_dosample is False else options.subtalker_temperature,
        top_k=options.subtalker_top_k,
        top_p=options.subtalker_top_p,
    )
    checkpoint = Sampling(
        temperature=temperature, top_k=defaults.predictor_top_k, top_p=defaults.predictor_top_p
    )
    return asked_of_predictor.with_defaults(checkpoint)
