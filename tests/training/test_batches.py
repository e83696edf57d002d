"""A corpus in batches: every utterance once, and passages of several."""

from dataclasses import replace

import numpy as np

from antiphon_training.language_model.batches import Batcher, Lesson
from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import random_corpus
from antiphon_training.language_model.tokenizer import Vocabulary
from tests.training.test_language_model import NOTHING, NUM_CODES, codes_of


def test_batches_hold_every_utterance_once() -> None:
    corpus = random_corpus(60, seed=4, frames=(3, 40), num_codes=NUM_CODES)
    vocabulary = Vocabulary.learn(corpus.texts, 300)
    ids = SpecialIds.of(vocabulary, ["random"])
    batcher = Batcher(Lesson.of(corpus.chosen(np.arange(40)), vocabulary), ids)
    batcher.add(Lesson.of(corpus.chosen(np.arange(40, 60)), vocabulary))
    batches = [*batcher.epoch(np.random.default_rng(0), num_positions=512, whole_share=0.5)]
    frames = np.concatenate([batch.frames[: batch.num_frames] for batch in batches])
    assert set(frames.tolist()) == set(range(len(corpus.codes)))
    assert len(frames) < 3 * len(corpus.codes), "few utterances fill batches up"
    shapes = {batch.rows.text.shape for batch in batches}
    assert len({width for _, width in shapes}) == len(shapes) > 3
    for batch in batches:
        assert batch.rows.text.size == len(batch.frames) == len(batch.rows.frame_places)
        places = batch.rows.frame_places[: batch.num_frames]
        padding = batch.rows.frame_places[batch.num_frames :]
        assert (batch.rows.text.flat[places] >= 0).all()
        assert (batch.rows.codec.flat[places] == NOTHING).all()
        assert (batch.rows.text.flat[padding] == NOTHING).all()
        assert not set(padding.tolist()) & {*places.tolist(), *batch.rows.last_places.tolist()}


def test_passages_are_recordings_in_order() -> None:
    corpus = random_corpus(30, seed=5, frames=(3, 20), num_codes=NUM_CODES)
    corpus = replace(corpus, texts=tuple(f"Number {number}." for number in range(30)))
    more = corpus.with_passages(np.random.default_rng(0), share=1.0, max_frames=45)
    assert more.texts[:30] == corpus.texts
    assert len(more.texts) > 40
    assert more.num_frames.max() <= 45
    sentences = {text: number for number, text in enumerate(corpus.texts)}
    for number in range(30, len(more.texts)):
        parts = [sentences[f"{each}."] for each in more.texts[number].rstrip(".").split(". ")]
        assert len(parts) > 1
        assert codes_of(more, number) == [row for part in parts for row in codes_of(corpus, part)]
