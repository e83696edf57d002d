"""Commands of the training: ``python -m antiphon_training COMMAND --help``."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon_training.language_model import commands as lm

Arguments = argparse.Namespace


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it is for, its arguments, and what it does with them."""

    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Arguments], None]


def _declare_texts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="file, a text per line")
    parser.add_argument("--texts", type=int, default=100_000, help="number of texts")
    parser.add_argument("--prose", type=Path, help="folder of .txt, .xhtml or WordNet's data")
    parser.add_argument("--seed", type=int, default=0)


def _texts(args: Arguments) -> None:
    from antiphon_training.texts import write_texts

    write_texts(args.out, args.texts, seed=args.seed, prose=args.prose)


def _declare_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--texts", type=Path, help="texts to be spoken, as `texts` writes them")
    parser.add_argument("--recordings", type=Path, help="own name.wav with name.txt, instead")
    parser.add_argument("--speakers", nargs="+", default=["heart"], help="heart, deep, or own name")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--hours", type=float, default=1e9, help="enough audio")
    parser.add_argument("--seed", type=int, default=0)


def _data(args: Arguments) -> None:
    from antiphon_training.data import generate, import_recordings, shard_tasks
    from antiphon_training.texts import read_texts

    if args.recordings is not None:
        import_recordings(args.recordings, args.out, args.speakers[0])
        return
    texts, held_out = read_texts(args.texts)
    tasks = shard_tasks(args.out, texts, held_out, args.speakers, args.seed)
    generate(args.out, tasks, num_workers=args.workers, seconds=args.seconds, hours=args.hours)


def _declare_codec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with audio-*.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoint and log")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--resume", type=Path, help="checkpoint of an earlier run")
    parser.add_argument("--size", default="small", help="small or tiny")
    parser.add_argument("--steps", type=int, help="length of the whole training, all runs together")
    parser.add_argument("--batch", type=int, help="crops of a step in each replica")
    parser.add_argument("--rate", type=float, help="largest learning rate")
    parser.add_argument("--adversarial-weight", type=float, help="weight of the discriminators")
    parser.add_argument("--feature-weight", type=float, help="weight of their activations")
    parser.add_argument("--plain-steps", type=int, help="steps before codes are used")
    parser.add_argument("--spectral-steps", type=int, help="steps before discriminators join in")
    parser.add_argument("--coding-steps", type=int, help="steps before codes are fixed")
    parser.add_argument("--settling-steps", type=int, help="steps of codebooks alone, after these")
    parser.add_argument(
        "--decode-alone", action="store_true", help="one GPU goes on when codes are fixed"
    )
    parser.add_argument("--min-hours", type=float, default=0.0, help="audio to wait for")
    parser.add_argument("--most-hours", type=float, default=1e9, help="audio to read, at most")
    parser.add_argument("--predicted", type=Path, help="folder of `predict`, to learn from as well")
    parser.add_argument("--device", default=None)
    parser.add_argument("--seed", type=int, default=0)


def _codec(args: Arguments) -> None:
    from antiphon_training.codec_run import Limits, train
    from antiphon_training.codec_training import CodecRecipe, CodecTrainer
    from antiphon_training.replicas import Replicas, device_of
    from antiphon_training.sizes import PRESETS

    recipe = CodecRecipe(sizes=PRESETS[args.size], seed=args.seed)
    names = ("steps", "rate", "adversarial_weight", "feature_weight", "plain_steps")
    given = {
        name: getattr(args, name)
        for name in (*names, "spectral_steps", "coding_steps", "settling_steps")
    }
    given["batch_crops"] = args.batch
    recipe = replace(recipe, **{name: value for name, value in given.items() if value is not None})
    device = device_of(args.device)
    replicas = Replicas.joined(device)
    trainer = CodecTrainer(
        recipe,
        args.data,
        device,
        replicas,
        most_hours=args.most_hours,
        predicted=args.predicted,
    )
    limits = Limits(
        args.seconds, recipe.steps, min_hours=args.min_hours, decodes_alone=args.decode_alone
    )
    train(trainer, args.out, limits, args.resume)


def _declare_use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", type=Path, required=True, help="codec.pt, or a folder that was exported"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to be written")
    parser.add_argument("--device", default=None)


def _declare_encode(parser: argparse.ArgumentParser) -> None:
    _declare_use(parser)
    parser.add_argument("--data", type=Path, required=True, help="folder with audio-*.npz")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--follow", action="store_true", help="wait for more until time is up")
    parser.add_argument("--seconds", type=float, default=1e9)


def _encode(args: Arguments) -> None:
    import torch

    from antiphon_training.encode import encode_in_processes

    device = None if args.device is None else torch.device(args.device)
    encode_in_processes(
        args.workers,
        args.checkpoint,
        device,
        args.data,
        args.out,
        args.seconds,
        follow=args.follow,
    )


def _declare_export(parser: argparse.ArgumentParser) -> None:
    _declare_use(parser)
    parser.add_argument("--half", action="store_true", help="write float16 weights")
    parser.add_argument("--no-encoder", action="store_true", help="for voices that clone nothing")


def _export(args: Arguments) -> None:
    import torch

    from antiphon_training.codec_run import load_codec
    from antiphon_training.export import export_codec

    codec = load_codec(args.checkpoint, torch.device("cpu"))
    dtype = torch.float16 if args.half else torch.float32
    export_codec(codec, args.out, with_encoder=not args.no_encoder, dtype=dtype)


def _declare_judge(parser: argparse.ArgumentParser) -> None:
    _declare_use(parser)
    parser.add_argument("--held-out", type=Path, required=True, help="held-out-*.npz")
    parser.add_argument("--texts", type=int, default=200, help="number of recordings")


def _judge(args: Arguments) -> None:
    from antiphon_training.codec_run import load_codec
    from antiphon_training.judge import judge
    from antiphon_training.replicas import device_of
    from antiphon_training.shards import Shard

    codec = load_codec(args.checkpoint, device_of(args.device))
    judge(codec, Shard.read(args.held_out, "audio"), args.out, args.texts)


COMMANDS = {
    "texts": Command("write texts to be spoken", _declare_texts, _texts),
    "data": Command("make recordings", _declare_data, _data),
    "codec": Command("train a codec", _declare_codec, _codec),
    "encode": Command("turn recordings into codes", _declare_encode, _encode),
    "export-codec": Command("write speech_tokenizer/", _declare_export, _export),
    "judge": Command("measure a codec", _declare_judge, _judge),
    "lm": Command("train a language model", lm.declare_training, lm.run_training),
    "predict": Command("draw codes for recordings", lm.declare_prediction, lm.run_prediction),
    "export": Command("join a language model and a codec", lm.declare_export, lm.run_export),
    "judge-voice": Command("measure a voice in the engine", lm.declare_judge, lm.run_judge),
    "card": Command("write a model card from figures", lm.declare_card, lm.run_card),
    "package": Command("write a package that pip installs", lm.declare_package, lm.run_package),
    "babble": Command("write made-up speech as codes", lm.declare_babble, lm.run_babble),
}


def main(arguments: list[str]) -> None:
    """Run a command; only its own modules are imported."""
    parser = argparse.ArgumentParser(prog="antiphon_training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        command.declare(commands.add_parser(name, help=command.summary))
    args = parser.parse_args(arguments)
    COMMANDS[args.command].run(args)


if __name__ == "__main__":
    main(sys.argv[1:])
