"""Training of a codec: spectra first, then against discriminators too."""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from antiphon_training.checkpoints import load_checkpoint, save_checkpoint
from antiphon_training.codec import Codec
from antiphon_training.crops import Crops
from antiphon_training.discriminators import Discriminators
from antiphon_training.export import read_codec
from antiphon_training.initial import initialize
from antiphon_training.log import Log
from antiphon_training.losses import (
    adversarial_loss,
    discriminator_loss,
    feature_distance,
    linear_distance,
    mel_distance,
)
from antiphon_training.optimizing import WeightAverage, adamw, set_rate, step_safely
from antiphon_training.sizes import FRAME_SAMPLES, SAMPLE_RATE_HZ, CodecSizes
from antiphon_training.step_graphs import StepGraphs

CHECKPOINT = "codec.pt"


@dataclass(frozen=True, slots=True)
class CodecRecipe:
    """Everything that decides about a codec, except the data.

    Attributes:
        steps: length of the whole training; rates fall along a cosine until there.
        warm_up_steps: steps in which the rate grows.
        plain_steps: steps without quantizers, before codebooks are fitted.
        spectral_steps: steps before discriminators join in.
        batch_crops: crops of a step, each of ``crop_frames``.
        long_every: distance of steps on few crops of ``long_frames`` instead, which are longer than
            the decoder's window and begin where recordings do.
        judged_frames: length of what discriminators see of each crop.
        partial_share: share of the crops that use a random number of codes.
    """

    sizes: CodecSizes
    steps: int = 13000
    warm_up_steps: int = 100
    plain_steps: int = 1000
    spectral_steps: int = 1500
    batch_crops: int = 32
    crop_frames: int = 12
    long_every: int = 4
    long_frames: int = 100
    judged_frames: int = 12
    rate: float = 5e-4
    last_rate: float = 1e-5
    partial_share: float = 0.2
    mel_weight: float = 15.0
    linear_weight: float = 1.0
    adversarial_weight: float = 1.0
    feature_weight: float = 2.0
    commitment_weight: float = 0.25
    judge_width: int = 16
    seed: int = 0


class CodecTrainer:
    """A codec, its discriminators and everything that a resumed training needs."""

    def __init__(self, recipe: CodecRecipe, data: Path, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        torch.backends.cudnn.benchmark = True  # crops have two lengths
        self.recipe, self.device = recipe, device
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        self.codec = Codec(recipe.sizes).to(device)
        initialize(self.codec, self.codec.decoder.output)
        self.judges = Discriminators(recipe.judge_width).to(device)
        self.optimizers = (
            adamw(self.codec, recipe.rate),
            adamw(self.judges, recipe.rate),
        )
        self.average = WeightAverage(self.codec)
        self.crops = Crops(data, device, recipe.seed)
        self.graphs = StepGraphs(device)
        self.step = 0

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "codec": self.codec.state_dict(),
            "average": self.average.state(),
            "judges": self.judges.state_dict(),
            "optimizers": [each.state_dict() for each in self.optimizers],
            "random": self.crops.random.get_state(),
            "torch_random": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.codec.load_state_dict(state["codec"])
        self.average.restore(state["average"])
        self.judges.load_state_dict(state["judges"])
        for optimizer, content in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(content)
        self.crops.random.set_state(state["random"].cpu())
        torch.set_rng_state(state["torch_random"].cpu())
        self.step = state["step"]

    def train_step(self) -> dict[str, Tensor]:
        """Take a step; the losses stay on the device."""
        recipe = self.recipe
        if self.step == recipe.plain_steps:
            self._fit_codebooks()
        self._set_rates()
        target = self._draw()
        inputs = {"target": target, "num_used": self._num_used(len(target))}
        if self.step < recipe.plain_steps:
            losses = self.graphs.run("plain", self._plain_step, inputs)
        elif self.step < recipe.spectral_steps:
            losses = self.graphs.run("spectral", self._spectral_step, inputs)
        else:
            inputs["judged"] = self._judged_places(target.shape[2])
            losses = self.graphs.run("adversarial", self._adversarial_step, inputs)
        self.average.update(self.codec, self.step)
        self.step += 1
        return {name: each.detach() for name, each in losses.items()}

    def _plain_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        _, losses = self._spectral_losses(inputs, quantizes=False)
        return self._learn(losses)

    def _spectral_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        _, losses = self._spectral_losses(inputs)
        return self._learn(losses)

    def _adversarial_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        samples, losses = self._spectral_losses(inputs)
        target = inputs["target"][:, 0].index_select(1, inputs["judged"])
        samples = samples.index_select(1, inputs["judged"])
        judges = self._train_judges(target, samples.detach())
        losses["adversarial"], losses["features"] = self._deceive(target, samples)
        return self._learn(losses) | {"judges": judges}

    def _spectral_losses(
        self, inputs: dict[str, Tensor], *, quantizes: bool = True
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the codec's samples ``[B, t]``, and how far they are from the target."""
        target = inputs["target"]
        with self._autocast():
            samples, commitment = self.codec(target, inputs["num_used"], quantizes=quantizes)
        distance = mel_distance(samples[:, 0], target[:, 0])
        linear = linear_distance(samples[:, 0], target[:, 0])
        return samples[:, 0], {"mel": distance, "linear": linear, "commitment": commitment}

    def _learn(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take a step down the weighted sum of losses."""
        recipe = self.recipe
        weights = {
            "mel": recipe.mel_weight,
            "linear": recipe.linear_weight,
            "commitment": recipe.commitment_weight,
            "adversarial": recipe.adversarial_weight,
            "features": recipe.feature_weight,
        }
        total = torch.stack([weights[name] * each for name, each in losses.items()]).sum()
        return losses | {"gradient": step_safely(self.optimizers[0], self.codec, total)}

    def _train_judges(self, target: Tensor, samples: Tensor) -> Tensor:
        with self._autocast():
            scores, _ = self.judges(torch.cat((target, samples)))
        halves = [each.chunk(2) for each in scores]
        loss = discriminator_loss([real for real, _ in halves], [fake for _, fake in halves])
        step_safely(self.optimizers[1], self.judges, loss)
        return loss

    def _deceive(self, target: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the adversarial loss of samples, and the distance of features."""
        self.judges.requires_grad_(False)
        with self._autocast():
            with torch.no_grad():
                _, real = self.judges(target)
            scores, fake = self.judges(samples)
            losses = adversarial_loss(scores), feature_distance(real, fake)
        self.judges.requires_grad_(True)
        return losses

    def _draw(self) -> Tensor:
        recipe = self.recipe
        is_long = self.step % recipe.long_every == recipe.long_every - 1
        frames = recipe.long_frames if is_long else recipe.crop_frames
        num_rows = max(1, recipe.batch_crops * recipe.crop_frames // frames)
        return self.crops.draw(num_rows, frames * FRAME_SAMPLES, from_start=is_long)

    def _judged_places(self, num_samples: int) -> Tensor:
        """Draw which samples of the crops discriminators see, ``[length]``."""
        length = min(self.recipe.judged_frames * FRAME_SAMPLES, num_samples)
        random, device = self.crops.random, self.device
        start = torch.randint(num_samples - length + 1, (1,), generator=random, device=device)
        return start + torch.arange(length, device=device)

    def _num_used(self, num_rows: int) -> Tensor:
        """Draw how many codes each row uses: mostly all, at least one."""
        num_codebooks = self.recipe.sizes.num_codebooks
        random, device = self.crops.random, self.device
        some = torch.randint(1, num_codebooks + 1, (num_rows,), generator=random, device=device)
        is_partial = torch.rand(num_rows, generator=random, device=device)
        return torch.where(is_partial < self.recipe.partial_share, some, num_codebooks)

    def _fit_codebooks(self) -> None:
        num_frames = self.recipe.batch_crops * self.recipe.crop_frames
        num_batches = max(1, 8 * self.recipe.sizes.codebook_size // num_frames)
        with self._autocast():
            self.codec.fit_codebooks(self._draw() for _ in range(num_batches))

    def _set_rates(self) -> None:
        recipe = self.recipe
        warmth = min(1.0, (self.step + 1) / recipe.warm_up_steps)
        cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, self.step / recipe.steps))
        for optimizer in self.optimizers:
            rate = recipe.last_rate + (recipe.rate - recipe.last_rate) * cosine
            set_rate(optimizer, warmth * rate)

    def _autocast(self) -> torch.autocast:
        # Without the cache: a graph may not keep weights that an earlier one cast.
        is_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_gpu, cache_enabled=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends, and how often it tells and saves."""

    seconds: float
    max_step: int = 1 << 60
    log_every_steps: int = 50
    save_every_s: float = 120.0
    refresh_every_steps: int = 200
    min_hours: float = 0.0


def train(trainer: CodecTrainer, folder: Path, limits: Limits, resume: Path | None = None) -> None:
    """Train until the recipe's last step or until time is up; leave a checkpoint in ``folder``.

    Args:
        folder: directory of the checkpoint and of the log, ``codec.jsonl``.
        limits: end of this run.
        resume: checkpoint of an earlier run.
    """
    began = saved = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "codec.jsonl")
    if resume is not None:
        trainer.restore(load_checkpoint(resume, trainer.device))
        log.write(event="resumed", step=trainer.step)
    _wait_for_audio(trainer.crops, limits, began)
    first, window_began, window_step = trainer.step, time.monotonic(), trainer.step
    for step in _steps(trainer, began, limits):
        if (step - first) % limits.refresh_every_steps == 0:
            trainer.crops.refresh()
        losses = trainer.train_step()
        if trainer.step % limits.log_every_steps == 0:
            values = {name: round(float(each), 5) for name, each in losses.items()}  # waits
            now = time.monotonic()
            step_ms = 1000 * (now - window_began) / (trainer.step - window_step)
            window_began, window_step = now, trainer.step
            log.write(
                step=trainer.step,
                elapsed_s=round(now - began, 1),
                step_ms=round(step_ms, 1),
                hours=round(trainer.crops.num_samples / SAMPLE_RATE_HZ / 3600, 2),
                used_codes=_used_share(trainer.codec),
                peak_gb=round(torch.cuda.max_memory_allocated() / 1e9, 1),
                **values,
            )
        if time.monotonic() - saved > limits.save_every_s:
            save_checkpoint(folder / CHECKPOINT, trainer.state())
            saved = time.monotonic()
    save_checkpoint(folder / CHECKPOINT, trainer.state())
    log.write(event="saved", step=trainer.step, elapsed_s=round(time.monotonic() - began, 1))


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


def _wait_for_audio(crops: Crops, limits: Limits, began: float) -> None:
    """Wait until a part of the data is there: another process may still be writing it."""
    wanted = max(limits.min_hours * 3600 * SAMPLE_RATE_HZ, 1)
    crops.refresh()
    while crops.num_samples < wanted and time.monotonic() - began < limits.seconds:
        time.sleep(1.0)
        crops.refresh()


def _steps(trainer: CodecTrainer, began: float, limits: Limits) -> Iterator[int]:
    last = min(trainer.recipe.steps, limits.max_step)
    while trainer.step < last and time.monotonic() - began < limits.seconds:
        yield trainer.step


@torch.no_grad()
def _used_share(codec: nn.Module) -> float:
    """Return the perplexity of the codes in use as a share of their number, over all codebooks."""
    assert isinstance(codec, Codec)
    usage = torch.cat((codec.first.usage, codec.rest.usage))
    share = usage / usage.sum(1, keepdim=True)
    entropy = -(share * share.clamp(min=1e-12).log()).sum(1)
    return round(float(entropy.exp().mean()) / usage.shape[1], 3)
