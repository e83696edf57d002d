"""Commands of the language model; PyTorch is imported when one runs."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

_UTTERANCES_PER_SHARD = 2000


def declare_training(parser: ArgumentParser) -> None:
    """Declare the arguments of ``lm``, which `train.Options` explains."""
    parser.add_argument("--codes", type=Path, required=True, help="folder with codes-*.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint and log")
    parser.add_argument("--seconds", type=float, required=True, help="time of this run")
    parser.add_argument(
        "--total-seconds", type=float, help="time of all runs, if there are several"
    )
    parser.add_argument("--resume", action="store_true", help="go on where the last run ended")
    parser.add_argument("--size", help="small, medium or tiny")
    parser.add_argument("--vocabulary", type=int, help="text tokens")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--batch-positions", type=int, help="positions of a batch")
    parser.add_argument("--later-frames", type=int, help="frames for the code predictor in a step")
    parser.add_argument("--whole-share", type=float, help="share of texts read before the frames")
    parser.add_argument("--noise", type=float, help="largest share of wrong codes in the input")
    parser.add_argument("--dropout", type=float, help="share of values that layers leave out")
    parser.add_argument(
        "--most-hours", type=float, help="recordings that may join while it trains, and before"
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device")
    parser.add_argument("--measure-seconds", type=float, help="time between measures")
    parser.add_argument("--max-file-mib", type=float, help="largest file of weights")
    parser.add_argument("--most-steps", type=int)


def run_training(args: Namespace) -> None:
    """Train a language model."""
    from antiphon_training.language_model.train import Options, Training
    from antiphon_training.replicas import Replicas, device_of

    given = {name: value for name, value in vars(args).items() if value is not None}
    given.pop("command", None)
    device = device_of(args.device)
    given["device"] = str(device)
    Training(Options(**given), Replicas.joined(device)).run()


def declare_prediction(parser: ArgumentParser) -> None:
    """Declare the arguments of ``predict``."""
    parser.add_argument("--lm", type=Path, required=True, help="folder that lm writes")
    parser.add_argument("--size", default="small", help="small, medium or tiny")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--codes", type=Path, required=True, help="folder of their codes")
    parser.add_argument("--out", type=Path, required=True, help="folder to be written")
    parser.add_argument("--hours", type=float, default=20.0, help="enough audio")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device")


def run_prediction(args: Namespace) -> None:
    """Draw codes for recordings, from which the decoder learns to bear wrong ones."""
    from antiphon_training.language_model.predict import predict_folder
    from antiphon_training.replicas import device_of

    predict_folder(
        args.lm,
        args.size,
        args.data,
        args.codes,
        args.out,
        device=device_of(args.device),
        hours=args.hours,
        seconds=args.seconds,
    )


def declare_export(parser: ArgumentParser) -> None:
    """Declare the arguments of ``export``."""
    parser.add_argument("--lm", type=Path, required=True, help="folder that lm wrote")
    parser.add_argument("--codec", type=Path, required=True, help="folder speech_tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")


def run_export(args: Namespace) -> None:
    """Join a language model and a codec."""
    from antiphon_training.language_model.export import export

    export(args.lm, args.codec, args.out)


def declare_babble(parser: ArgumentParser) -> None:
    """Declare the arguments of ``babble``."""
    parser.add_argument("--out", type=Path, required=True, help="folder to be written")
    parser.add_argument("--utterances", type=int, default=10_000)
    parser.add_argument("--codes", type=int, default=2048, help="size of each codebook")


def run_babble(args: Namespace) -> None:
    """Write shards of made-up speech, to try a training before there are recordings."""
    from antiphon_training.language_model.corpus import babble

    args.out.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, args.utterances, _UTTERANCES_PER_SHARD)):
        count = min(_UTTERANCES_PER_SHARD, args.utterances - start)
        corpus = babble(count, number, num_codes=args.codes)
        corpus.write(args.out / f"codes-{number:05d}.npz")


def declare_judge(parser: ArgumentParser) -> None:
    """Declare the arguments of ``judge-voice``."""
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--held-out", type=Path, required=True, help="held_out.txt")
    parser.add_argument("--out", type=Path, required=True, help="folder to be written")
    parser.add_argument("--texts", type=int, default=200, help="number of texts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantize", help="int8 or fp16, on a CPU")
    parser.add_argument("--voice", help="name of a voice; by default the first")


def run_judge(args: Namespace) -> None:
    """Measure a checkpoint through the engine."""
    from antiphon_training.language_model.judge import judge

    texts = args.held_out.read_text(encoding="utf-8").splitlines()[: args.texts]
    how = {"device": args.device, "dtype": args.dtype, "quantize": args.quantize}
    how["voice"] = args.voice
    judge(args.checkpoint, texts, args.out, **how)


def declare_card(parser: ArgumentParser) -> None:
    """Declare the arguments of ``card``."""
    parser.add_argument("--name", default="wren")
    parser.add_argument("--judgement", type=Path, required=True, help="judgement.json")
    parser.add_argument("--log", type=Path, required=True, help="log.jsonl of the language model")
    parser.add_argument("--out", type=Path, required=True, help="file to be written")


def run_card(args: Namespace) -> None:
    """Write a model card."""
    from antiphon_training.language_model.card import write_card

    write_card(args.out, args.name, args.judgement, args.log)


def declare_package(parser: ArgumentParser) -> None:
    """Declare the arguments of ``package``."""
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--card", type=Path, required=True, help="model card")
    parser.add_argument("--name", required=True, help="name to serve the voice by")
    parser.add_argument("--version", default="0.1.0")
    parser.add_argument("--license", required=True, help="SPDX expression, as Apache-2.0")
    parser.add_argument("--out", type=Path, required=True, help="folder to be written")


def run_package(args: Namespace) -> None:
    """Write a distribution."""
    from antiphon_training.language_model.package import write_package

    named = {"name": args.name, "version": args.version, "license_name": args.license}
    write_package(args.checkpoint, args.card, args.out, **named)
