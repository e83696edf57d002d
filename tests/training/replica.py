"""One of several processes that train a codec, then a language model; writes their final states."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from antiphon_training.codec_run import Limits, train
from antiphon_training.codec_training import CodecTrainer
from antiphon_training.language_model.train import Options, Training
from antiphon_training.replicas import Replicas
from tests.training.conftest import TINY_RECIPE

_DEVICE = torch.device("cpu")


def codec_state(data: Path, replicas: Replicas) -> dict[str, Any]:
    recipe = replace(TINY_RECIPE, coding_steps=5, settling_steps=2)
    trainer = CodecTrainer(recipe, data, _DEVICE, replicas)
    trainer.crops.refresh()
    while trainer.step < 9:
        trainer.train_step()
    return trainer.state() | {"seen": trainer.crops.num_samples}


def decode_alone(data: Path, replicas: Replicas) -> None:
    """Train a codec in both processes, then its decoder in one."""
    recipe = replace(TINY_RECIPE, coding_steps=5, settling_steps=2, steps=9)
    trainer = CodecTrainer(recipe, data, _DEVICE, replicas)
    train(trainer, data / f"alone-{replicas.rank}", Limits(1e9, decodes_alone=True))


def language_model_state(codes: Path, replicas: Replicas) -> dict[str, Any]:
    options = Options(
        codes=codes,
        out=codes / "lm",
        seconds=1e9,
        size="tiny",
        vocabulary=280,
        device="cpu",
        batch_positions=256,
        later_frames=32,
        most_steps=25,
    )
    training = Training(options, replicas)
    training.run()
    models = {"model": training.model, "averaged": training.averaged}
    states = {name: model.state_dict() for name, model in models.items()}
    return states | {"seen": training.num_frames}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    joined = Replicas.joined(_DEVICE)
    torch.save(codec_state(folder, joined), folder / f"codec-{joined.rank}.pt")
    torch.save(language_model_state(folder, joined), folder / f"lm-{joined.rank}.pt")
    decode_alone(folder, joined)
