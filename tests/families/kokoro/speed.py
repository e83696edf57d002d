"""How fast Kokoro-82M speaks, on random weights: ``python -m tests.families.kokoro.speed``.

    python -m tests.families.kokoro.speed --random-dir kept [--profile] [--lanes 1,2,3,4]

Prints milliseconds for a sentence by itself, then seconds of audio a second of several threads. In
graphs; in the same padded steps without graphs; and by the plain network, which sees each length
for the first time. The first two are compared: they should differ by rounding only.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.families.kokoro.graph_network import GraphNetwork
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.torch_network import TorchNetwork, build_model
from tests.families.kokoro.random_checkpoint import make_checkpoint

_NUM_IDS = {1: 13, 3: 41, 6: 84, 10: 140}
"""Of sentences of about so many seconds, as random weights speak."""
_NUM_RUNS = 20
_NUM_SENTENCES = 96

_Speak: TypeAlias = Callable[[tuple[int, ...], int], Samples]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sentence(num_ids: int) -> tuple[int, ...]:
    return tuple(int(each) for each in np.random.default_rng(num_ids).integers(43, 120, num_ids))


def speaker(network: GraphNetwork | TorchNetwork, style: NDArray[np.float32]) -> _Speak:
    return lambda ids, seed: network.speak(ids, style, (seed, 0))[0]


def times_ms(speak: _Speak, ids: tuple[int, ...]) -> tuple[float, list[float]]:
    """Return the seconds of audio, and how long each of some runs took, the first one first."""
    spent, samples = [], np.zeros(0, np.float32)
    for seed in range(_NUM_RUNS):
        begun_s = time.perf_counter()
        samples = speak(ids, seed)
        spent.append((time.perf_counter() - begun_s) * 1e3)
    return len(samples) / 24_000, spent


def throughput(speak: _Speak, num_threads: int, sentences: Sequence[tuple[int, ...]]) -> float:
    """Return seconds of audio a second."""
    with ThreadPoolExecutor(num_threads) as threads:
        begun_s = time.perf_counter()
        made = list(threads.map(speak, sentences, range(len(sentences))))
        spent_s = time.perf_counter() - begun_s
    return sum(len(each) for each in made) / 24_000 / spent_s


def report_alone(name: str, speak: _Speak) -> None:
    for seconds, num_ids in _NUM_IDS.items():
        audio_s, (first_ms, *spent) = times_ms(speak, sentence(num_ids))
        middle_ms, worst_ms = np.median(spent), max(spent)
        say(
            f"{name}, about {seconds} s ({audio_s:.2f} s): {middle_ms:.2f} ms, at worst"
            f" {worst_ms:.2f}; the first {first_ms:.1f}; {audio_s / middle_ms * 1e3:.0f} x"
        )


def report_together(name: str, speak: _Speak) -> None:
    lengths = np.random.default_rng(1).integers(13, 110, _NUM_SENTENCES)
    sentences = [sentence(int(each)) for each in lengths]
    for num_threads in (1, 8, 16):
        found = throughput(speak, num_threads, sentences)
        say(f"{name}, {num_threads} threads: {found:.0f} s of audio a second")


def report_difference(graphs: _Speak, steps: _Speak) -> None:
    """Say how far two ways are apart: relative to the loudness, and as spectra."""
    for num_ids in _NUM_IDS.values():
        found, wanted = (each(sentence(num_ids), 1) for each in (graphs, steps))
        far = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
        spectra = [np.abs(np.fft.rfft(e.reshape(-1, 600))).mean(axis=0) for e in (found, wanted)]
        alike = np.corrcoef(*spectra)[0, 1]
        say(f"graphs and plain steps, {num_ids} ids: {far:.2e} apart, spectra {alike:.4f} alike")


def profile(speak: _Speak) -> None:
    """Say which kernels take the time of a sentence of 3 s."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        speak(sentence(_NUM_IDS[3]), 0)
    table = profiler.key_averages().table(sort_by="self_device_time_total", row_limit=30)
    say(str(table))


def graph_network(model: KokoroModel, device: torch.device, num_lanes: int) -> GraphNetwork:
    begun_s = time.perf_counter()
    network = GraphNetwork(model, device, num_lanes=num_lanes)
    spent_s = time.perf_counter() - begun_s
    used = torch.cuda.memory_reserved() / 2**30 if device.type == "cuda" else 0.0
    say(f"{num_lanes} lanes: made in {spent_s:.1f} s; {used:.2f} GiB reserved")
    return network


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random-dir", type=Path, required=True, help="kept for the next time")
    parser.add_argument("--lanes", default="1,2,3,4", help="numbers of lanes")
    parser.add_argument("--size", default="82M", choices=["82M", "tiny"])
    parser.add_argument("--profile", action="store_true", help="tell kernels too")
    options = parser.parse_args()
    folder = options.random_dir
    if not (folder / "kokoro-v1_0.pth").exists():
        make_checkpoint(folder, size=options.size)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    say(torch.cuda.get_device_name() if device.type == "cuda" else "a CPU, without graphs")
    model = build_model(folder, folder / "kokoro-v1_0.pth").eval().to(device)
    style = torch.load(folder / "voices" / "af_heart.pt", weights_only=True)[40].numpy()
    steps = speaker(GraphNetwork(model, device, num_lanes=3, captures=False), style)
    for index, num_lanes in enumerate(int(each) for each in options.lanes.split(",")):
        graphs = speaker(graph_network(model, device, num_lanes), style)
        if index == 0:
            report_alone("graphs", graphs)
            report_difference(graphs, steps)
            if options.profile:
                profile(graphs)
        report_together(f"graphs in {num_lanes} lanes", graphs)
    report_alone("padded steps without graphs", steps)
    report_together("padded steps without graphs", steps)
    plain = speaker(TorchNetwork(model, device), style)
    report_alone("plain network", plain)
    report_together("plain network", plain)


if __name__ == "__main__":
    main()
