"""Prompts and speech of utterances as rows of ids; the layouts of the official package.

A row is the role, the language tag with the speaker, the text, and the frames. The text is either
read before the frames (``is_whole``) or beside them, one token for each frame.
"""

from dataclasses import dataclass

import numpy as np

from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import Flags, Ints

NOTHING = -1


@dataclass(frozen=True, slots=True)
class Utterances:
    """Utterances of a batch.

    Attributes:
        text: text ids end to end.
        text_offsets: first id of each utterance, ``[rows + 1]``.
        speakers: speaker ids, ``[rows]``.
        is_tagged: whether the language is named, ``[rows]``.
        is_whole: whether the text comes before the frames, ``[rows]``.
    """

    text: Ints
    text_offsets: Ints
    speakers: Ints
    is_tagged: Flags
    is_whole: Flags

    @property
    def starts(self) -> Ints:
        """Position of begin-of-speech in each row, after which the frames follow."""
        num_text = np.diff(self.text_offsets)
        return 3 + self.num_tags + np.where(self.is_whole, num_text + 1, 0)

    @property
    def num_tags(self) -> Ints:
        """Positions of tag, speaker and padding in each row."""
        return np.where(self.is_tagged, 6, 5)


@dataclass(frozen=True, slots=True)
class Rows:
    """Ids of a batch, padded at the end.

    Attributes:
        text: ``[rows, positions]``, `NOTHING` where there is none.
        codec: the same for ids of the codec's vocabulary beside frames.
        frame_places: flat position of each frame, in order.
        last_places: flat position of each row's last frame, from which the end is predicted; the
            position of begin-of-speech if there is no frame.
    """

    text: Ints
    codec: Ints
    frame_places: Ints
    last_places: Ints


def lay_out(ids: SpecialIds, batch: Utterances, num_frames: Ints, width: int = 0) -> Rows:
    """Lay utterances out, each with so many frames.

    Args:
        ids: ids of prompts.
        batch: utterances.
        num_frames: frames of each row, ``[rows]``.
        width: fewest positions of a row.
    """
    starts, num_tags = batch.starts[:, None], batch.num_tags[:, None]
    width = max(width, int((batch.starts + num_frames).max()) + 1)
    places = np.arange(width)[None]
    text, codec = _prefix(ids, batch, places)
    num_text = np.diff(batch.text_offsets)[:, None]
    begin = np.where(batch.is_whole[:, None], 3 + num_tags, starts)
    number = places - begin
    flat = np.concatenate((batch.text, [ids.tts_eos]))
    index = np.clip(batch.text_offsets[:-1, None] + number, 0, len(batch.text))
    in_text = (number >= 0) & (number < num_text)
    text = np.where(in_text, flat[index], text)
    text = np.where(number == num_text, ids.tts_eos, text)
    text = np.where((number > num_text) & (places >= starts), ids.tts_pad, text)
    is_before = (places >= 3 + num_tags) & (places < starts)
    codec = np.where(is_before, ids.codec_pad, codec)
    codec = np.where(places == starts, ids.codec_bos, codec)
    ends = starts + num_frames[:, None]
    text = np.where(places <= ends, text, NOTHING)
    return Rows(
        text=text,
        codec=codec,
        frame_places=np.flatnonzero((places > starts) & (places <= ends)),
        last_places=np.arange(len(ends)) * width + ends[:, 0],
    )


def _prefix(ids: SpecialIds, batch: Utterances, places: Ints) -> tuple[Ints, Ints]:
    """Return both tracks of the role and of the tag, `NOTHING` elsewhere."""
    num_rows = len(batch.speakers)
    shape = (num_rows, places.shape[1])
    role = np.array(ids.role)
    text = np.where(places < 3, role[np.minimum(places, 2)], NOTHING)
    text = np.broadcast_to(text, shape)
    tagged = [ids.think, ids.think_bos, ids.english, ids.think_eos, 0, ids.codec_pad]
    untagged = [ids.nothink, ids.think_bos, ids.think_eos, 0, ids.codec_pad, NOTHING]
    tags = np.where(batch.is_tagged[:, None], np.array(tagged), np.array(untagged))
    num_tags = batch.num_tags
    tags[np.arange(num_rows), num_tags - 2] = batch.speakers
    number = places - 3
    in_tags = (number >= 0) & (number < num_tags[:, None])
    index = np.broadcast_to(np.clip(number, 0, 5), shape)
    codec = np.where(in_tags, np.take_along_axis(tags, index, 1), NOTHING)
    is_last = number == num_tags[:, None] - 1
    text = np.where(in_tags, np.where(is_last, ids.tts_bos, ids.tts_pad), text)
    return text, codec
