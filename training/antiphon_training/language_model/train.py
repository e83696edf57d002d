"""Training of the language model on codes, for a given time; resumable.

    python -m antiphon_training lm --codes DIRECTORY --out DIRECTORY --seconds N [--resume]

The output is a checkpoint's directory without its codec. `log.jsonl` gets a line of JSON every few
seconds; `state.pt` holds all that a run needs to go on where another ended.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.batches import Batch, Batcher, DeviceBatch, Lesson
from antiphon_training.language_model.checkpoint import (
    SpecialIds,
    read_weights,
    write_configuration,
    write_weights,
)
from antiphon_training.language_model.corpus import Corpus
from antiphon_training.language_model.lessons import (
    DeviceCorpus,
    NewShards,
    Passages,
    taught_lesson,
)
from antiphon_training.language_model.losses import Losses, Noise, PhonemeReader, losses_of
from antiphon_training.language_model.measures import held_out_measures
from antiphon_training.language_model.model import LanguageModel
from antiphon_training.language_model.optimizer import Optimization, learning_rate
from antiphon_training.language_model.prefetch import Prefetch
from antiphon_training.language_model.sizes import SIZES
from antiphon_training.language_model.tokenizer import Vocabulary
from antiphon_training.log import Log, shown_bar
from antiphon_training.optimizing import derive
from antiphon_training.replicas import Replicas
from antiphon_training.step_graphs import StepGraphs

STATE = "state.pt"
_NUM_TEXTS_OF_VOCABULARY = 50_000
_PASSAGES_FROM = 0.4
"""Share of the whole time after which passages are taught: reading is learned sooner without."""
_CLOCK_STEPS = 20
_ROOM = 1.05
"""Room for passages, whose lengths vary from lesson to lesson."""
_LAST_SHARE = 0.03
"""Share of a run's time left for its end: the last state and measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Arguments of a run; the command line has the same ones.

    Attributes:
        codes: directory of the corpus.
        out: directory of the result.
        seconds: time of this run, from its start to its end.
        total_seconds: time of all runs that resume each other, by which the learning rate falls; 0:
            that of this run.
        size: key of `SIZES`.
        vocabulary: tokens learned from the texts.
        batch_positions: positions of a batch, padding included.
        later_frames: frames of a batch that the code predictor is taught on.
        whole_share: share of utterances whose text is read before the frames, not beside them.
        passages: number of utterances of several recordings, relative to that of recordings.
        passage_frames: longest of them.
        most_hours: recordings to make room for: shards that appear meanwhile join the training; 0:
            only those that exist at its start.
        noise: largest share of codes that the talker reads wrong.
        dropout: share of what layers read and add that is left out.
        most_steps: limit of steps of all runs, by which the learning rate falls too; 0: none.
    """

    codes: Path
    out: Path
    seconds: float
    total_seconds: float = 0.0
    resume: bool = False
    size: str = "small"
    vocabulary: int = 2000
    learning_rate: float = 1e-3
    batch_positions: int = 16384
    later_frames: int = 8192
    whole_share: float = 0.5
    passages: float = 0.3
    passage_frames: int = 320
    most_hours: float = 0.0
    noise: float = 0.15
    dropout: float = 0.1
    seed: int = 0
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    log_seconds: float = 5.0
    measure_seconds: float = 120.0
    save_seconds: float = 120.0
    max_file_mib: float = 15.0
    most_steps: int = 0


class Training:
    """A run: model, its moving average, optimizer and data."""

    def __init__(self, options: Options, replicas: Replicas | None = None) -> None:
        """Read the corpus; make a model, or read the one in ``out`` to resume."""
        self.options, self.replicas = options, replicas or Replicas()
        self._began = time.monotonic()
        options.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(options.seed)
        torch.set_float32_matmul_precision("high")
        self.device = torch.device(options.device)
        self._shards = NewShards(options.codes)
        corpus = self._shards.read()
        if corpus is None:
            raise FileNotFoundError(f"{options.codes}: there is no codes-*.npz")
        if self.is_first:
            self.vocabulary = self._vocabulary(corpus)
            self._configure(corpus)
        self.replicas.any(False, self.device)  # the others read what the first has written
        if not self.is_first:
            self.vocabulary = Vocabulary.read(options.out)
            self._configure(corpus)
        self._rng = np.random.default_rng(options.seed)
        self._passages = Passages(options.passages, options.passage_frames)
        lesson = taught_lesson(corpus, self.vocabulary, self._rng, self._passages)
        self.num_recordings, self.hours = lesson.num_recordings, lesson.hours
        is_held_out = corpus.held_out()
        held_out = lesson
        if is_held_out.any():
            held_out = Lesson.of(corpus.chosen(np.flatnonzero(is_held_out)), self.vocabulary)
        self.batcher = Batcher(lesson, self.ids)
        self.held_out = Batcher(held_out, self.ids)
        growth = options.most_hours / lesson.hours
        capacity = int(_ROOM * growth * len(lesson.corpus.codes))
        self.taught = DeviceCorpus(lesson.corpus, self.device, capacity)
        self.held_out_codes = DeviceCorpus(held_out.corpus, self.device).codes
        self.model = LanguageModel(self.sizes, options.dropout).to(self.device)
        self.averaged = LanguageModel(self.sizes).to(self.device).requires_grad_(False)
        self.reader = PhonemeReader(self.sizes.talker.hidden_size, self.taught.phonemes)
        self.reader.to(self.device)
        self.optimization = Optimization.of(
            self.model, self.averaged, self.reader, options.learning_rate
        )
        self.graphs = StepGraphs(self.device)
        if self.device.type == "cuda":
            self.model.compile_layers()
        self.elapsed_s, self.num_steps, self.num_frames = 0.0, 0, 0
        self.progress = self._time_s = 0.0
        if options.resume:
            self._resume()
        else:
            self.averaged.load_state_dict(self.model.state_dict())
        self._log = Log(options.out / "log.jsonl")
        torch.manual_seed(options.seed + self.replicas.rank)

    @property
    def is_first(self) -> bool:
        """Whether this replica writes files."""
        return self.replicas.rank == 0

    def _configure(self, corpus: Corpus) -> None:
        options = self.options
        self.ids = SpecialIds.of(self.vocabulary, sorted(set(corpus.speakers)))
        self.sizes = SIZES[options.size].with_text(self.vocabulary.num_rows)
        if self.is_first:
            write_configuration(options.out, self.sizes, self.vocabulary, self.ids.speakers)

    def _vocabulary(self, corpus: Corpus) -> Vocabulary:
        out = self.options.out
        if self.options.resume and (out / "vocab.json").is_file():
            return Vocabulary.read(out)
        texts = corpus.texts[:_NUM_TEXTS_OF_VOCABULARY]
        return Vocabulary.learn(texts, self.options.vocabulary)

    def _resume(self) -> None:
        """Read the last state, or else the weights alone."""
        file = self.options.out / STATE
        if file.is_file():
            state = torch.load(file, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.reader.load_state_dict(state["reader"])
            self.averaged.load_state_dict(state["averaged"])
            self.optimization.load_state_dict(state["optimizer"])
            self.elapsed_s = state["elapsed_s"]
            self.num_steps, self.num_frames = state["num_steps"], state["num_frames"]
            return
        weights = read_weights(self.options.out)
        for model in (self.model, self.averaged):
            model.load_state_dict(weights)

    def save(self) -> None:
        """Write the state and the averaged weights."""
        if not self.is_first:
            return
        out = self.options.out
        state = {
            "model": self.model.state_dict(),
            "reader": self.reader.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimization.state_dict(),
            "elapsed_s": self.elapsed_s,
            "num_steps": self.num_steps,
            "num_frames": self.num_frames,
        }
        torch.save(state, out / f"{STATE}.new")
        (out / f"{STATE}.new").replace(out / STATE)
        max_bytes = int(self.options.max_file_mib * 2**20)
        tensors = self.averaged.state_dict()
        write_weights(out, tensors, dtype=torch.float16, max_bytes=max_bytes)

    def run(self) -> dict[str, Any]:
        """Train for the given time; return the last measures."""
        with shown_bar("language model", self.is_first) as show:
            self._teach(show)
        self.save()
        last = self.measures() if self.is_first else {}
        self.log({"event": "end", "steps": self.num_steps, **last})
        return last

    def _teach(self, show: Callable[[float], None]) -> None:
        options = self.options
        before_s, before_steps = self.elapsed_s, self.num_steps
        total_s = (options.total_seconds or before_s + options.seconds) * (1 - _LAST_SHARE)
        self.elapsed_s = before_s + time.monotonic() - self._began
        self.progress = self.elapsed_s / total_s
        self.log({"event": "start", **self._description()})
        logged, saved = _Every(options.log_seconds), _Every(options.save_seconds)
        measured = _Every(options.measure_seconds)
        frames_before, start_s = self.num_frames, self.elapsed_s
        for batch in Prefetch(self._batches()):
            self.elapsed_s = before_s + self._clock_s()
            is_over = self.elapsed_s - before_s >= options.seconds * (1 - _LAST_SHARE)
            if isinstance(batch, Lesson):
                self._study(batch)
                continue
            if is_over or (options.most_steps and self.num_steps >= options.most_steps):
                break
            steps_share = self.num_steps / options.most_steps if options.most_steps else 0.0
            self.progress = max(self.elapsed_s / total_s, steps_share)
            show(max((self.elapsed_s - before_s) / options.seconds, steps_share))
            rate = learning_rate(options.learning_rate, self.progress)
            losses = self._step(batch, rate)
            if logged.is_due():
                seconds = max(self.elapsed_s - start_s, 1e-9)
                speeds = {
                    "steps_s": round((self.num_steps - before_steps) / seconds, 2),
                    "frames_s": round((self.num_frames - frames_before) / seconds),
                }
                line = {"steps": self.num_steps, "rate": round(rate, 7)}
                line["hours"] = round(self.hours, 1)
                self.log(line | speeds | _numbers(losses))
            if self.is_first and measured.is_due():
                self.log({"event": "held out", **self.measures()})
            if saved.is_due():
                self.save()

    def _clock_s(self) -> float:
        """Return the time since the start; that of the first replica, read every few steps."""
        if self.num_steps % (_CLOCK_STEPS if self.replicas.count > 1 else 1) == 0:
            clock = torch.tensor(time.monotonic() - self._began, device=self.device)
            self.replicas.copy_first(clock)
            self._time_s = float(clock)
        return self._time_s

    def _batches(self) -> Iterator[Batch | Lesson]:
        seeds = (self.options.seed, self.num_steps, self.replicas.rank)
        rng = np.random.default_rng(seeds)
        while True:
            lesson = self._next_lesson()
            if lesson is not None:
                self.batcher.add(lesson)
                yield lesson
            yield from self.batcher.epoch(
                rng,
                passages=self.progress >= _PASSAGES_FROM,
                num_positions=self.options.batch_positions,
                whole_share=self.options.whole_share,
            )

    def _next_lesson(self) -> Lesson | None:
        """Return what appeared since the last call, if it is read and there is room for it."""
        if not self.options.most_hours:
            return None
        lesson = self._shards.take(self.vocabulary, self._rng, self._passages)
        room = len(self.taught.codes) - int(self.batcher.num_frames.sum())
        return lesson if lesson is not None and len(lesson.corpus.codes) <= room else None

    def _study(self, lesson: Lesson) -> None:
        """Store what the next batches refer to."""
        self.taught.add(lesson.corpus)
        self.num_recordings += lesson.num_recordings
        self.hours += lesson.hours

    def _step(self, batch: Batch, rate: float) -> dict[str, Tensor]:
        self.optimization.set_rate(rate)
        losses = self.graphs.run("step", self._derive, fields_of(batch.on(self.device)))
        # The next graph shares its memory.
        losses = {name: each.clone() for name, each in losses.items()}
        self.replicas.sum(self.optimization.learner.gradients)
        self.graphs.run("end", self._move, {})
        self.optimization.follow(self.num_steps)
        self.num_steps += 1
        self.num_frames += batch.num_frames
        return losses

    def _move(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        del inputs
        return {"gradient": self.optimization.step(self.replicas.count)}

    def _derive(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        is_gpu = self.device.type == "cuda"
        options = self.options
        # Without the cache: a graph may not keep weights that an earlier one cast.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_gpu, cache_enabled=False):
            losses = losses_of(
                self.model,
                DeviceBatch(**inputs),
                self.taught.codes,
                self.ids.codec_eos,
                noise=Noise(options.noise, options.noise / 3),
                max_later_frames=options.later_frames,
                reader=self.reader,
            )
        derive(losses.total, [self.optimization.learner])
        return {name: each.detach() for name, each in fields_of(losses).items()}

    def measures(self) -> dict[str, Any]:
        """Return the measures of the averaged model on utterances that it was not taught on."""
        return held_out_measures(self.averaged, self.held_out, self.ids, self.held_out_codes)

    def _description(self) -> dict[str, Any]:
        return {
            "device": _device_name(self.device),
            "torch": torch.__version__,
            "parameters": sum(each.numel() for each in self.model.parameters()),
            "recordings": self.num_recordings,
            "passages": len(self.batcher.num_frames) - self.num_recordings,
            "held_out": len(self.held_out.num_frames),
            "hours": round(self.hours, 2),
            "tokens": len(self.vocabulary.ids),
            "speakers": dict(self.ids.speakers),
        }

    def log(self, line: dict[str, Any]) -> None:
        """Write a line to the log and to standard output."""
        if self.is_first:
            self._log.write(elapsed_s=round(self.elapsed_s, 1), **line)


class _Every:
    """Timer that is due once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def is_due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._seconds
        return True


def _numbers(losses: dict[str, Tensor]) -> dict[str, float]:
    """Return losses as numbers; it waits for the device."""
    return {name: round(each.mean().item(), 4) for name, each in losses.items()}


def fields_of(batch: DeviceBatch | Losses) -> dict[str, Tensor]:
    return {field.name: getattr(batch, field.name) for field in fields(batch)}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
