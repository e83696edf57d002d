"""Refusal of long texts of which their voices can speak nothing, before work on them begins."""

from collections.abc import Callable, Iterable
from functools import partial

from antiphon.contracts.languages import resolve_language
from antiphon.contracts.prompt import SupportsTextChecks
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import UnspeakableTextError
from antiphon.pipeline.speech.segmenter import Lengths, SentenceSegmenter
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import joined
from antiphon.pipeline.speech.text_plan import PlanItem, Segment

_MAX_CHECKED_CHARACTERS = 20_000
"""A second of work; the job itself fails if nothing after them can be spoken either."""
_CHARACTERS_AT_ONCE = 1000


def check_speakable(
    speech: Speech, turns: Iterable[tuple[SpeechRequest, Voice]], param: str
) -> None:
    """Find words that a voice can speak; reads the texts up to the first, and blocks meanwhile.

    Args:
        param: Name of the field that has the texts.

    Raises:
        UnspeakableTextError: there are none.
        InvalidRequestError: a text is wrong.
    """
    words: tuple[str, ...] = ()
    num_checked = 0
    for request, voice in turns:
        try:
            _check(speech, request, voice, _MAX_CHECKED_CHARACTERS - num_checked)
        except UnspeakableTextError as error:
            words = joined(words, error.words)
            num_checked += len(request.input)
        else:
            return
    raise UnspeakableTextError(words, param=param)


def _check(speech: Speech, request: SpeechRequest, voice: Voice, max_characters: int) -> None:
    model, text = speech.model(request.model), request.input[:max_characters]
    capabilities = model.capabilities
    checker = model.prompter if isinstance(model.prompter, SupportsTextChecks) else None
    language = resolve_language(request.language, capabilities.languages)
    lengths = Lengths(max=capabilities.max_segment_characters)
    planner = speech.planner_of(request, model)(SentenceSegmenter(lengths))
    starts = range(0, len(text), _CHARACTERS_AT_ONCE)
    steps: list[Callable[[], list[PlanItem]]]
    steps = [partial(planner.push, text[at : at + _CHARACTERS_AT_ONCE]) for at in starts]
    is_whole = len(text) == len(request.input)
    words: tuple[str, ...] = ()
    arriving: list[Segment] = []
    for step in (*steps, planner.finish) if is_whole else steps:
        arriving += [item for item in step() if isinstance(item, Segment)]
        if arriving and checker is None:
            return
        while checker and arriving and arriving[0].text.is_complete:
            check = checker.check_text(arriving.pop(0).text.written, voice, language)
            if check.is_spoken:
                return
            words = joined(words, check.unspoken)
    if words and is_whole:
        raise UnspeakableTextError(words, voice.id)
