"""Recordings with codes that a language model draws: a decoder learns to bear its mistakes.

As vocoders are tuned on what an acoustic model predicts for true recordings (Kong et al., 2020,
arXiv:2010.05646, section 4.3): the first code of a frame is true, and so is all that precedes the
frame; the other codes are drawn. So they stay beside the recording's samples.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon_training.language_model.batches import Batcher, Lesson
from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import Corpus, Ints
from antiphon_training.language_model.generate import Drawing, draw_frames
from antiphon_training.language_model.model import Inputs, LanguageModel
from antiphon_training.language_model.sizes import SIZES
from antiphon_training.language_model.tokenizer import Vocabulary
from antiphon_training.language_model.train import STATE
from antiphon_training.shards import Shard, shard_files
from antiphon_training.sizes import FRAME_SAMPLES, SAMPLE_RATE_HZ

_ROWS = 32
_DRAWING = Drawing(temperature=0.4)


@dataclass(frozen=True, slots=True)
class Trained:
    """A language model as its training last saved it."""

    model: LanguageModel
    ids: SpecialIds
    vocabulary: Vocabulary

    @classmethod
    def read(cls, folder: Path, size: str, device: torch.device) -> "Trained":
        """Read a folder that `lm` writes."""
        vocabulary = Vocabulary.read(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        ids = SpecialIds.of(vocabulary, list(config["talker_config"]["spk_id"]))
        model = LanguageModel(SIZES[size].with_text(vocabulary.num_rows)).to(device)
        state = torch.load(folder / STATE, map_location=device, weights_only=True)
        model.load_state_dict(state["averaged"])
        return cls(model.eval(), ids, vocabulary)


def predict_folder(
    language_model: Path,
    size: str,
    data: Path,
    codes: Path,
    out: Path,
    *,
    device: torch.device,
    hours: float,
    seconds: float,
) -> float:
    """Write ``audio-*.npz`` of whole frames, and ``codes-*.npz`` that a model drew for them.

    A training that goes on is read again when it has saved.

    Args:
        language_model: folder that `lm` writes.
        size: its size, a key of `SIZES`.
        data: folder of the recordings.
        codes: folder of their codes.
        out: folder to be written.
        device: device of the model.
        hours: enough audio.
        seconds: time after which no further file is begun.

    Returns:
        Hours of audio written.
    """
    out.mkdir(parents=True, exist_ok=True)
    began, written, saved, trained = time.monotonic(), 0.0, 0.0, None
    for path in shard_files(codes, "codes"):
        if written >= hours or time.monotonic() - began > seconds:
            break
        changed = (language_model / STATE).stat().st_mtime
        if trained is None or changed > saved:
            trained, saved = Trained.read(language_model, size, device), changed
        name = path.name.replace("codes-", "audio-")
        audio = _whole_frames(Shard.read(data / name, "audio"))
        drawn = replace(Shard.read(path, "codes"), rows=predicted_codes(trained, path))
        audio.write(out / name, "audio")
        drawn.write(out / path.name, "codes")
        written += len(audio.rows) / SAMPLE_RATE_HZ / 3600
    return written


@torch.inference_mode()
def predicted_codes(trained: Trained, path: Path) -> NDArray[np.uint16]:
    """Return the codes of a shard with all but the first of each frame drawn anew."""
    corpus = Corpus.read([path])
    batcher = Batcher(Lesson.of(corpus, trained.vocabulary), trained.ids)
    device = trained.model.talker.codec_head.weight.device
    true = torch.from_numpy(corpus.codes.astype(np.int64)).to(device)
    drawn = true.clone()
    for number, numbers in enumerate(_batches(corpus.num_frames)):
        is_whole = np.full(len(numbers), number % 2 == 0)
        batch = batcher.batch(numbers, is_whole=is_whole, is_tagged=is_whole).on(device)
        frames = true[batch.frames]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            inputs = Inputs(batch.text, batch.codec, batch.frame_places, frames)
            states = trained.model.hidden(inputs)[batch.frame_places - 1]
            drawn[batch.frames] = draw_frames(trained.model, states, frames[:, 0], _DRAWING)
    return drawn.cpu().numpy().astype(np.uint16)


def _batches(num_frames: Ints) -> Iterator[Ints]:
    """Yield the numbers of utterances of similar lengths."""
    order = np.argsort(num_frames, kind="stable")
    for start in range(0, len(order), _ROWS):
        yield order[start : start + _ROWS]


def _whole_frames(shard: Shard) -> Shard:
    """Return recordings with silence behind each, up to whole frames."""
    parts = [shard.part(index) for index in range(len(shard.texts))]
    padded = [np.pad(part, (0, -len(part) % FRAME_SAMPLES)) for part in parts]
    return Shard.of(padded, shard.texts, shard.speaker)
