"""Training of a codec: spectra first, then against discriminators too."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from antiphon_training.codec import CODE_PARAMETERS, Codec
from antiphon_training.coded_crops import CodedCrops
from antiphon_training.crops import Crops
from antiphon_training.discriminators import Discriminators
from antiphon_training.initial import initialize
from antiphon_training.losses import (
    adversarial_loss,
    discriminator_loss,
    feature_distance,
    linear_distance,
    mel_distance,
    phoneme_loss,
)
from antiphon_training.optimizing import Learner, WeightAverage, adamw, derive, set_rate
from antiphon_training.replicas import Replicas
from antiphon_training.shards import LABELS_PER_FRAME, UNKNOWN
from antiphon_training.sizes import FRAME_SAMPLES, CodecSizes
from antiphon_training.step_graphs import StepGraphs


@dataclass(frozen=True, slots=True)
class CodecRecipe:
    """Everything that decides about a codec, except the data.

    Attributes:
        steps: length of the whole training; rates fall along a cosine until there.
        warm_up_steps: steps in which the rate grows.
        plain_steps: steps without quantizers, before codebooks are fitted.
        spectral_steps: steps before discriminators join in.
        coding_steps: steps in which the encoder learns; after them codes stay what they are, so
            that a language model can be trained on them, and the decoder alone goes on.
        settling_steps: steps after these in which codebooks still follow the averaged encoder.
        batch_crops: crops of a step in each replica, each of ``crop_frames``.
        long_every: distance of steps on few crops of ``long_frames`` instead, which are longer than
            the decoder's window and begin where recordings do.
        judged_frames: length of what discriminators see of each crop.
        partial_share: share of the crops that use a random number of codes.
        phoneme_weight: weight of reading phonemes, where they are known, from the first codes:
            these are what a language model predicts from the text.
    """

    sizes: CodecSizes
    steps: int = 40000
    warm_up_steps: int = 100
    plain_steps: int = 60
    spectral_steps: int = 1200
    coding_steps: int = 16000
    settling_steps: int = 500
    batch_crops: int = 20
    crop_frames: int = 12
    long_every: int = 4
    long_frames: int = 100
    judged_frames: int = 12
    rate: float = 5e-4
    last_rate: float = 1e-5
    partial_share: float = 0.15
    mel_weight: float = 15.0
    linear_weight: float = 1.0
    adversarial_weight: float = 1.5
    feature_weight: float = 15.0
    commitment_weight: float = 0.25
    phoneme_weight: float = 3.0
    judge_width: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.plain_steps <= self.spectral_steps <= self.coding_steps:
            raise ValueError(
                "steps must rise: plain_steps, spectral_steps, coding_steps; these are "
                f"{self.plain_steps}, {self.spectral_steps}, {self.coding_steps}"
            )

    @property
    def settled_step(self) -> int:
        """Number of steps after which codes do not change any more."""
        return self.coding_steps + self.settling_steps


@dataclass(frozen=True, slots=True)
class Phase:
    """What a step does; its name is that of the step's CUDA graphs."""

    name: str
    quantizes: bool = True
    has_judges: bool = True
    learns_codes: bool = False
    moves_codebooks: bool = False


_PLAIN = Phase("plain", quantizes=False, has_judges=False, learns_codes=True)
_SPECTRAL = Phase("spectral", has_judges=False, learns_codes=True, moves_codebooks=True)
_ADVERSARIAL = Phase("adversarial", learns_codes=True, moves_codebooks=True)
_SETTLING = Phase("settling", moves_codebooks=True)
_DECODING = Phase("decoding")
_PREDICTED = Phase("predicted")


class CodecTrainer:
    """A codec, its discriminators and everything that a resumed training needs."""

    def __init__(
        self,
        recipe: CodecRecipe,
        data: Path,
        device: torch.device,
        replicas: Replicas | None = None,
        *,
        most_hours: float = math.inf,
        predicted: Path | None = None,
    ) -> None:
        """Prepare a training.

        Args:
            recipe: what decides about the codec.
            data: folder of recordings.
            device: device of the training.
            replicas: place among the processes that train together.
            most_hours: audio to read.
            predicted: folder that `predict` writes: once codes are fixed and there is something in
                it, every other step decodes such codes.
        """
        torch.manual_seed(recipe.seed)
        torch.backends.cudnn.benchmark = True  # crops have two lengths
        torch.backends.cudnn.benchmark_limit = 3  # trying ten algorithms takes minutes in all
        torch.set_float32_matmul_precision("high")
        self.recipe, self.device = recipe, device
        self.replicas = replicas or Replicas()
        self.codec = Codec(recipe.sizes).to(device)
        initialize(self.codec, self.codec.decoder.output)
        self.judges = Discriminators(recipe.judge_width).to(device)
        self.reader = nn.Linear(2 * recipe.sizes.vector_dim, LABELS_PER_FRAME * UNKNOWN).to(device)
        coding = list(self.reader.parameters())
        decoding: list[nn.Parameter] = []
        for name, parameter in self.codec.named_parameters():
            (coding if name.startswith(CODE_PARAMETERS) else decoding).append(parameter)
        self.coder, self.decoder, self.judge = (
            Learner(parameters, adamw(parameters, recipe.rate))
            for parameters in (coding, decoding, list(self.judges.parameters()))
        )
        self.learners = (self.coder, self.decoder, self.judge)
        self.average = WeightAverage(self.codec)
        self.crops = Crops(data, device, recipe.seed, self.replicas, most_hours=most_hours)
        self.predicted = (
            None if predicted is None else CodedCrops(predicted, device, self.crops.random)
        )
        self.graphs = StepGraphs(device)
        self.step = 0

    def goes_on_alone(self) -> bool:
        """Part from other replicas; return whether this one goes on: the first does."""
        is_first = self.replicas.rank == 0
        self.replicas = self.replicas.parted()
        return is_first

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "codec": self.codec.state_dict(),
            "average": self.average.state(),
            "judges": self.judges.state_dict(),
            "reader": self.reader.state_dict(),
            "optimizers": [each.optimizer.state_dict() for each in self.learners],
            "random": self.crops.random.get_state(),
            "torch_random": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.codec.load_state_dict(state["codec"])
        self.average.restore(state["average"])
        self.judges.load_state_dict(state["judges"])
        self.reader.load_state_dict(state["reader"])
        for learner, content in zip(self.learners, state["optimizers"], strict=True):
            learner.optimizer.load_state_dict(content)
        if self.replicas.count == 1:
            self.crops.random.set_state(state["random"].cpu())
        torch.set_rng_state(state["torch_random"].cpu())
        self.step = state["step"]

    @property
    def phase(self) -> Phase:
        """What the next step does."""
        recipe = self.recipe
        if self.step < recipe.spectral_steps:
            return _PLAIN if self.step < recipe.plain_steps else _SPECTRAL
        if self.step < recipe.coding_steps:
            return _ADVERSARIAL
        if self.step < recipe.settled_step:
            return _SETTLING
        # Short crops and long ones alike.
        is_turn = self.step // recipe.long_every % 2 == 1
        return _PREDICTED if is_turn and self._has_predicted else _DECODING

    @property
    def _has_predicted(self) -> bool:
        return self.predicted is not None and len(self.predicted) >= self.recipe.long_frames

    def refresh(self) -> None:
        """Take in what other processes wrote since the last call."""
        self.crops.refresh()
        if self.predicted is not None:
            self.predicted.refresh()

    def train_step(self) -> dict[str, Tensor]:
        """Take a step; the losses stay on the device."""
        recipe, phase = self.recipe, self.phase
        if self.step == recipe.plain_steps:
            self._fit_codebooks()
        if self.step == recipe.coding_steps:
            self.average.apply(self.codec, self.average.state(), *CODE_PARAMETERS)
        for quantizer in self.codec.quantizers:
            quantizer.train(phase.moves_codebooks)
        self._set_rates()
        inputs = self._draw(phase)
        if phase.has_judges:
            inputs["judged"] = self._judged_places(inputs["target"].shape[2])
        losses = self.graphs.run(phase.name, partial(self._derive, phase), inputs)
        # The next graph shares its memory.
        losses = {name: each.detach().clone() for name, each in losses.items()}
        self.replicas.sum(*(each.gradients for each in self._learners_of(phase)))
        if phase.moves_codebooks:
            self.replicas.sum(*(each.tally for each in self.codec.quantizers))
        norms = self.graphs.run(f"{phase.name} end", partial(self._move, phase), {})
        self.average.update(self.codec, self.step)
        self.step += 1
        return losses | norms

    def _learners_of(self, phase: Phase) -> list[Learner]:
        coders = [self.coder] * phase.learns_codes
        return [*coders, self.decoder, *[self.judge] * phase.has_judges]

    def _derive(self, phase: Phase, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Set the gradients of all learners, and count codes; return the losses."""
        decode = self._decode_given if "codes" in inputs else self._decode_own
        samples, losses = decode(phase, inputs)
        target = inputs["target"][:, 0]
        losses |= {
            "mel": mel_distance(samples, target),
            "linear": linear_distance(samples, target),
        }
        if phase.has_judges:
            judged = (each.index_select(1, inputs["judged"]) for each in (target, samples))
            losses |= self._judge(*judged)
        recipe = self.recipe
        weights = {
            "mel": recipe.mel_weight,
            "linear": recipe.linear_weight,
            "commitment": recipe.commitment_weight,
            "adversarial": recipe.adversarial_weight,
            "features": recipe.feature_weight,
            "phonemes": recipe.phoneme_weight,
        }
        total = torch.stack([weights[name] * losses[name] for name in weights if name in losses])
        derive(total.sum(), [self.coder] * phase.learns_codes + [self.decoder])
        if phase.moves_codebooks and self.replicas.rank > 0:
            for quantizer in self.codec.quantizers:
                quantizer.clear_spares()
        return losses

    def _decode_given(
        self, phase: Phase, inputs: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the samples ``[B, t]`` of given codes."""
        del phase
        with self._autocast():
            return self.codec.decoded(inputs["codes"])[:, 0], {}

    def _decode_own(
        self, phase: Phase, inputs: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the samples ``[B, t]`` of the codec's own codes, and losses of these codes."""
        with self._autocast():
            decoded = self.codec(
                inputs["target"],
                inputs["num_used"],
                quantizes=phase.quantizes,
                learns_codes=phase.learns_codes,
            )
            logits = self.reader(decoded.first.transpose(1, 2))
        return decoded.samples[:, 0], {
            "commitment": decoded.commitment,
            "phonemes": phoneme_loss(
                torch.unflatten(logits, 2, (LABELS_PER_FRAME, UNKNOWN)), inputs["phonemes"]
            ),
        }

    def _judge(self, target: Tensor, samples: Tensor) -> dict[str, Tensor]:
        """Set the discriminators' gradients; return their loss and what the codec learns of them.

        Both sides learn from the same pass.
        """
        with self._autocast():
            scores, features = self.judges(torch.cat((target, samples)))
        real_scores, scores = _halves(scores)
        real_features, features = _halves(features)
        loss = discriminator_loss(real_scores, scores)
        derive(loss, [self.judge], keeps_graph=True)
        distance = feature_distance(real_features, features)
        adversarial = adversarial_loss(scores)
        return {"judges": loss, "adversarial": adversarial, "features": distance}

    def _move(self, phase: Phase, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Let all learners take a step, and the codebooks; return the norms of gradients."""
        del inputs
        count = self.replicas.count
        norms = [each.step(count) for each in self._learners_of(phase)]
        if phase.moves_codebooks:
            for quantizer in self.codec.quantizers:
                quantizer.move()
        return {"gradient": torch.stack(norms[:-1] if phase.has_judges else norms).norm()}

    def _draw(self, phase: Phase) -> dict[str, Tensor]:
        recipe = self.recipe
        is_long = self.step % recipe.long_every == recipe.long_every - 1
        frames = recipe.long_frames if is_long else recipe.crop_frames
        num_rows = max(1, recipe.batch_crops * recipe.crop_frames // frames)
        if phase is _PREDICTED:
            assert self.predicted is not None
            coded = self.predicted.draw(num_rows, frames, from_start=is_long)
            return {"target": coded.samples, "codes": coded.codes}
        drawn = self.crops.draw(num_rows, frames * FRAME_SAMPLES, from_start=is_long)
        num_used = self._num_used(num_rows)
        return {"target": drawn.samples, "phonemes": drawn.phonemes, "num_used": num_used}

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
            batches = (self._draw(_PLAIN)["target"] for _ in range(num_batches))
            self.codec.fit_codebooks(batches)
        for each in self.codec.quantizers:
            self.replicas.copy_first(each.usage, each.sums)

    def _set_rates(self) -> None:
        recipe = self.recipe
        warmth = min(1.0, (self.step + 1) / recipe.warm_up_steps)
        cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, self.step / recipe.steps))
        for learner in self.learners:
            rate = recipe.last_rate + (recipe.rate - recipe.last_rate) * cosine
            set_rate(learner.optimizer, warmth * rate)

    def _autocast(self) -> torch.autocast:
        # Without the cache: a graph may not keep weights that an earlier one cast.
        is_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_gpu, cache_enabled=False)


def _halves(parts: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the first half of each part's rows, and the second."""
    pairs = [each.chunk(2) for each in parts]
    return [first for first, _ in pairs], [second for _, second in pairs]
