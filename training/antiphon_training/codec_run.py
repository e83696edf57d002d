"""A run of the codec's training: its time, its log, its checkpoints."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon_training.checkpoints import load_checkpoint, save_checkpoint
from antiphon_training.codec import Codec
from antiphon_training.codec_training import CodecTrainer
from antiphon_training.crops import Crops
from antiphon_training.export import read_codec
from antiphon_training.log import Log, shown_bar
from antiphon_training.optimizing import WeightAverage
from antiphon_training.sizes import SAMPLE_RATE_HZ, CodecSizes

CHECKPOINT = "codec.pt"
CODES_CHECKPOINT = "codes.pt"
"""Checkpoint of the step after which codes do not change any more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends, and how often it reports and saves.

    Attributes:
        decodes_alone: whether the first replica goes on alone once codes are fixed: the decoder
            profits little of several, and a language model may have their GPUs.
    """

    seconds: float
    max_step: int = 1 << 60
    log_every_steps: int = 50
    save_every_s: float = 120.0
    refresh_every_steps: int = 200
    min_hours: float = 0.0
    decodes_alone: bool = False


def train(trainer: CodecTrainer, folder: Path, limits: Limits, resume: Path | None = None) -> None:
    """Train until the recipe's last step or until time is up; leave a checkpoint in ``folder``.

    Args:
        trainer: codec, which all replicas train in step.
        folder: directory of the checkpoint and of the log, ``codec.jsonl``.
        limits: end of this run.
        resume: checkpoint of an earlier run.
    """
    run = _Run(trainer, folder, limits)
    if resume is not None:
        trainer.restore(load_checkpoint(resume, trainer.device))
        run.log(event="resumed", step=trainer.step)
    run.wait_for_audio()
    first, last = trainer.step, min(trainer.recipe.steps, limits.max_step)
    with shown_bar("codec", trainer.replicas.rank == 0) as show:
        while trainer.step < last:
            if (trainer.step - first) % limits.refresh_every_steps == 0:
                trainer.refresh()
            losses = trainer.train_step()
            show(max(trainer.step / last, run.elapsed_s / limits.seconds))
            if trainer.step == trainer.recipe.settled_step:
                run.save(CODES_CHECKPOINT)
                if limits.decodes_alone and not trainer.goes_on_alone():
                    return
            if trainer.step % limits.log_every_steps == 0:
                run.report({name: round(float(each), 5) for name, each in losses.items()})
                if trainer.replicas.any(run.is_over, trainer.device):
                    break
    run.save()


class _Run:
    """Clock, log and files of a run; only the first replica writes."""

    def __init__(self, trainer: CodecTrainer, folder: Path, limits: Limits) -> None:
        self._trainer, self._folder, self._limits = trainer, folder, limits
        self._began = self._saved = self._reported = time.monotonic()
        self._reported_step = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._log = Log(folder / "codec.jsonl")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        return self.elapsed_s >= self._limits.seconds

    def log(self, **values: object) -> None:
        if self._trainer.replicas.rank == 0:
            self._log.write(elapsed_s=round(self.elapsed_s, 1), **values)

    def wait_for_audio(self) -> None:
        """Wait until a part of the data is there: another process may still be writing it."""
        wanted = max(self._limits.min_hours * 3600 * SAMPLE_RATE_HZ, 1)
        crops = self._trainer.crops
        crops.refresh()
        while crops.num_samples < wanted and not self.is_over:
            time.sleep(1.0)
            crops.refresh()
        self._reported, self._reported_step = time.monotonic(), self._trainer.step

    def report(self, losses: dict[str, float]) -> None:
        """Log the losses of a step; save if it is time to."""
        trainer, now = self._trainer, time.monotonic()
        step_ms = 1000 * (now - self._reported) / (trainer.step - self._reported_step)
        self._reported, self._reported_step = now, trainer.step
        self.log(
            step=trainer.step,
            step_ms=round(step_ms, 1),
            hours=_hours(trainer.crops),
            used_codes=_used_share(trainer.codec),
            peak_gb=round(torch.cuda.max_memory_allocated() / 1e9, 1),
            **losses,
        )
        if now - self._saved > self._limits.save_every_s:
            self.save()

    def save(self, name: str = CHECKPOINT) -> None:
        """Write a checkpoint."""
        self._saved = time.monotonic()
        if self._trainer.replicas.rank == 0:
            save_checkpoint(self._folder / name, self._trainer.state())
        self.log(event="saved", file=name, step=self._trainer.step)


def load_codec(path: Path, device: torch.device) -> Codec:
    """Load the averaged weights of a checkpoint, or a folder that was exported, for use."""
    if path.is_dir():
        return read_codec(path, device)
    torch.backends.cudnn.allow_tf32 = False  # rounding would change codes
    state = load_checkpoint(path, device)
    codec = Codec(CodecSizes(**state["recipe"]["sizes"])).to(device)
    codec.load_state_dict(state["codec"])
    WeightAverage.apply(codec, state["average"])
    return codec.eval()


def _hours(crops: Crops) -> float:
    return round(crops.num_samples / SAMPLE_RATE_HZ / 3600, 2)


@torch.no_grad()
def _used_share(codec: Codec) -> float:
    """Return the perplexity of the codes in use as a share of their number, over all codebooks."""
    usage = torch.cat([each.usage for each in codec.quantizers])
    share = usage / usage.sum(1, keepdim=True)
    entropy = -(share * share.clamp(min=1e-12).log()).sum(1)
    return round(float(entropy.exp().mean()) / usage.shape[1], 3)
