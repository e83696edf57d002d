"""Refusal of jobs that cannot be spoken, before work on them begins."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from antiphon.contracts.prompt import SupportsTextChecks
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import EngineError, RateLimitError, UnavailableError, UnspeakableTextError
from antiphon.pipeline.speech.segmenter import Lengths, SentenceSegmenter
from antiphon.pipeline.speech.service import LoadOptions, Speech
from antiphon.pipeline.speech.synthesis import joined
from antiphon.pipeline.speech.text_plan import PlanItem, Segment

_MAX_CHECKED_CHARACTERS = 20_000
"""A second of work; the job itself fails if nothing after them can be spoken either."""
_CHARACTERS_AT_ONCE = 1000


async def check_speakable(
    speech: Speech, turns: Iterable[SpeechRequest], load: LoadOptions, param: str
) -> None:
    """Build the prompt of the first words that can be spoken, as for a request of a listener.

    What only keeps it from being built now, such as a model that is loaded, is no reason to refuse.

    Args:
        load: returns the options of all requests, recordings as samples.
        param: Name of the field that has the texts.

    Raises:
        UnspeakableTextError: there are no such words.
        InvalidRequestError: they cannot be spoken so.
    """
    words: tuple[str, ...] = ()
    num_checked = 0
    with suppress(RateLimitError, UnavailableError, EngineError):
        options = await load()
        for turn in turns:
            request = replace(turn, options=options)
            try:
                await _build(speech, request, max(0, _MAX_CHECKED_CHARACTERS - num_checked))
            except UnspeakableTextError as error:
                words = joined(words, error.words)
                num_checked += len(request.input)
            else:
                return
        raise UnspeakableTextError(words, param=param)


async def _build(speech: Speech, request: SpeechRequest, max_characters: int) -> None:
    """Build the prompt of the first words of a request; raises InvalidRequestError."""
    model, workers = speech.model(request.model), speech.recording_workers
    speech.check(request, model)
    request, voice = await speech.resolve_voice(speech.completed(request, model), model)
    words = await workers.run(_first_words, speech, request, voice, max_characters)
    if words is not None:
        await model.prepare_to_encode(request.options)
        build = partial(model.prompter.build, replace(request, input=words), voice)
        await workers.run(build, request.seed or 0)


def _first_words(
    speech: Speech, request: SpeechRequest, voice: Voice, max_characters: int
) -> str | None:
    """Return the first segment that a voice can speak, or ``None`` if it is further on.

    Raises:
        UnspeakableTextError: there is none; punctuation alone is a segment.
        InvalidRequestError: the text is wrong.
    """
    model, text = speech.model(request.model), request.input[:max_characters]
    lengths = Lengths(max=model.capabilities.max_segment_characters)
    planner = speech.planner_of(request, model)(SentenceSegmenter(lengths))
    starts = range(0, len(text), _CHARACTERS_AT_ONCE)
    steps: list[Callable[[], list[PlanItem]]]
    steps = [partial(planner.push, text[at : at + _CHARACTERS_AT_ONCE]) for at in starts]
    is_whole = len(text) == len(request.input)
    words: tuple[str, ...] = ()
    last: str | None = None
    arriving: list[Segment] = []
    for step in (*steps, planner.finish) if is_whole else steps:
        arriving += [item for item in step() if isinstance(item, Segment)]
        while arriving and arriving[0].text.is_complete:
            last = arriving.pop(0).text.written
            if not isinstance(model.prompter, SupportsTextChecks):
                return last
            check = model.prompter.check_text(last, voice, request.language)
            if check.is_spoken:
                return last
            words = joined(words, check.unspoken)
    if not is_whole:
        return None
    if words:
        raise UnspeakableTextError(words, voice.id)
    return last
