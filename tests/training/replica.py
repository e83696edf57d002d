"""One of several processes that train a codec together; writes what it has at the end."""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from antiphon_training.codec_training import CodecTrainer
from antiphon_training.replicas import Replicas
from tests.training.conftest import TINY_RECIPE

if __name__ == "__main__":
    torch.set_num_threads(1)
    device = torch.device("cpu")
    replicas = Replicas.joined(device)
    recipe = replace(TINY_RECIPE, coding_steps=5, settling_steps=2)
    trainer = CodecTrainer(recipe, Path(sys.argv[1]), device, replicas)
    trainer.crops.refresh()
    while trainer.step < 9:
        trainer.train_step()
    state = trainer.state() | {"heard": trainer.crops.num_samples}
    torch.save(state, Path(sys.argv[2]) / f"{replicas.rank}.pt")
    torch.distributed.destroy_process_group()
