"""The trained language model speaks through the engine as it was taught."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.families.kit.random_checkpoint import write_json
from antiphon.families.qwen3_tts.checkpoint import codec_layout, inspect
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import LanguageModel as Engine
from antiphon.families.qwen3_tts.language_model import load_language_model, load_runner
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from antiphon.families.qwen3_tts.tokenizer import load_tokenizer
from antiphon.nn.attention import FrameCache
from antiphon.nn.attention_backends import frame_attention
from antiphon_training.language_model import judge
from antiphon_training.language_model.card import write_card
from antiphon_training.language_model.checkpoint import SpecialIds, read_weights
from antiphon_training.language_model.corpus import Corpus, random_corpus
from antiphon_training.language_model.export import CODEC_DIRECTORY, export
from antiphon_training.language_model.generate import Drawing, generate
from antiphon_training.language_model.losses import losses_of
from antiphon_training.language_model.model import Inputs
from antiphon_training.language_model.model import LanguageModel as TrainedModel
from antiphon_training.language_model.optimizer import orthogonal
from antiphon_training.language_model.tokenizer import Vocabulary
from antiphon_training.language_model.train import Options, Training
from antiphon_training.words import num_word_errors, words
from tests.engine import drive
from tests.families.qwen3_tts.lm import GREEDY
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights
from tests.families.qwen3_tts.random_recipe import recipe
from tests.families.random_files import write_tensors

NUM_CODES = 64
MAX_POSITIONS = 128


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def taught() -> Corpus:
    """Four utterances of random codes, none of which is held out."""
    corpus = random_corpus(40, seed=1, frames=(6, 12), num_codes=NUM_CODES)
    chosen = np.flatnonzero(~corpus.held_out())[:4]
    taught = corpus.chosen(chosen)
    phonemes = np.random.default_rng(2).integers(0, 10, taught.phonemes.shape, np.uint8)
    return replace(taught, speakers=("lark", "lark", "wren", "wren"), phonemes=phonemes)


def options_for(directory: Path, taught: Corpus, **more: Any) -> Options:
    codes = directory / "codes"
    codes.mkdir(exist_ok=True)
    taught.write(codes / "codes-00000.npz")
    fixed: dict[str, Any] = {"size": "tiny", "vocabulary": 280, "device": "cpu"}
    fixed |= {"batch_positions": 256, "later_frames": 32, "log_seconds": 1e9, "passages": 0.0}
    return Options(codes=codes, out=directory / "lm", **{**fixed, "seconds": 1e9, **more})


def trained(directory: Path, taught: Corpus, num_steps: int) -> Training:
    more = {"noise": 0.0, "learning_rate": 1e-2, "most_steps": num_steps}
    training = Training(options_for(directory, taught, **more))
    training.run()
    return training


@pytest.fixture(scope="module")
def training(taught: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Training:
    return trained(tmp_path_factory.mktemp("lm"), taught, num_steps=5)


@pytest.fixture(scope="module")
def learned(taught: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A model that knows the four utterances by heart, text whole and late."""
    return trained(tmp_path_factory.mktemp("learned"), taught, num_steps=300)


def exported(training: Training, directory: Path) -> Path:
    codec = directory / "codec"
    write_codec(directory / "made", codec)
    export(training.options.out, codec, directory / "checkpoint")
    return directory / "checkpoint"


@pytest.fixture(scope="module")
def checkpoint(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(training, tmp_path_factory.mktemp("exported"))


def write_codec(made: Path, codec: Path) -> None:
    write_all_but_weights(made)
    file = made / CODEC_DIRECTORY / "config.json"
    content = json.loads(file.read_text("utf-8"))
    for part in ("decoder_config", "encoder_config"):
        content[part]["codebook_size"] = NUM_CODES
    write_json(file, content)
    main = json.loads((made / "config.json").read_text("utf-8"))
    main["talker_config"]["code_predictor_config"]["vocab_size"] = NUM_CODES
    write_json(made / "config.json", main)
    config = load_config(made)
    tensors = recipe(codec_layout(config), config)
    write_tensors(made / CODEC_DIRECTORY, tensors, 1, "float32")
    (made / CODEC_DIRECTORY).rename(codec)


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    context = LoadContext(checkpoint, "cpu", "float32", max_slots=4)
    return load_language_model(context, MAX_POSITIONS)


def codes_of(corpus: Corpus, number: int) -> list[list[int]]:
    start, end = corpus.offsets[number : number + 2]
    codes: list[list[int]] = corpus.codes[start:end].astype(int).tolist()
    return codes


LEARNS = pytest.mark.slow  # 300 steps of training


@LEARNS
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "late"])
def test_engine_speaks_what_was_taught(
    is_whole: bool, taught: Corpus, learned: Training, tmp_path: Path
) -> None:
    checkpoint = exported(learned, tmp_path)
    context = LoadContext(checkpoint, "cpu", "float32", max_slots=4)
    prompter = Qwen3TTSPrompter(context)
    requests = [
        SpeechRequest(
            input=text,
            language="english" if number % 2 else None,
            sampling=GREEDY,
            options={"non_streaming_mode": is_whole},
        )
        for number, text in enumerate(taught.texts)
    ]
    prompts = {
        number: prompter.build(request, Voice(id=speaker, name=speaker), seed=0)
        for number, (request, speaker) in enumerate(zip(requests, taught.speakers, strict=True))
    }
    spoken = drive.generate(load_runner(context, max_positions=MAX_POSITIONS), prompts)
    for number in range(4):
        assert spoken[number].codes == codes_of(taught, number)
        assert spoken[number].end == "stop"


@LEARNS
def test_plain_generation_equals_the_engine(taught: Corpus, learned: Training) -> None:
    flags = np.array([True, False, True, False]), np.array([True, True, False, False])
    utterances = learned.batcher.utterances(np.arange(4), is_whole=flags[0], is_tagged=flags[1])
    greedy = Drawing(temperature=0)
    found = generate(learned.averaged, learned.ids, utterances, max_frames=20, drawing=greedy)
    for number, codes in enumerate(found):
        assert codes is not None
        assert codes.tolist() == codes_of(taught, number)


@LEARNS
def test_phonemes_are_learned(learned: Training) -> None:
    flags = np.ones(4, bool)
    batch = learned.batcher.batch(np.arange(4), is_whole=flags, is_tagged=flags, width=0)
    found = losses_of(
        learned.averaged,
        batch.on(learned.device),
        learned.taught.codes,
        learned.ids.codec_eos,
        reader=learned.reader,
    )
    assert found.phonemes < 0.5 * np.log(10)  # ten phonemes at random


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "late"])
def test_logits_equal_the_engine(
    is_whole: bool, taught: Corpus, training: Training, checkpoint: Path, engine: Engine
) -> None:
    """Teacher-forced logits of both models, on codes that the model was not taught."""
    rng = np.random.default_rng(3)
    codes = torch.from_numpy(rng.integers(0, NUM_CODES, (7, 16)))
    speaker = taught.speakers[0]
    request = SpeechRequest(input="Some other text", options={"non_streaming_mode": is_whole})
    prompter = Qwen3TTSPrompter(LoadContext(checkpoint))
    data = prompter.build(request, Voice(id=speaker, name=speaker), seed=0).data
    columns = [*data.prefix, (NO_TEXT if is_whole else data.text[0], engine_bos(engine))]
    padding = engine._config.tokens.tts_pad
    beside = [*data.text[1:], *[padding] * 7][:7] if not is_whole else [padding] * 7
    if is_whole:
        columns[-1] = (padding, columns[-1][1])
    states = embedded(engine, columns, beside, codes)
    transformer = engine.talker.transformer
    cache = FrameCache.zeros(transformer.kv_shape, 1, len(states), like=states)
    rotation = transformer.rope.between(0, len(states))
    with torch.inference_mode():
        hidden = transformer(states[None], rotation, frame_attention(cache, 1, 0))[0]
        expected = engine.talker.head(hidden)
        text = torch.tensor([[*(text for text, _ in columns), *beside]])
        codec = torch.tensor([[*(code for _, code in columns), *[NOTHING] * 7]])
        places = torch.arange(len(columns), len(columns) + 7)
        model = TrainedModel(training.sizes)
        model.load_state_dict(read_weights(checkpoint))
        found = model.hidden(Inputs(text, codec, places, codes))
        torch.testing.assert_close(model.first_logits(found), expected, atol=2e-4, rtol=2e-4)


NOTHING = NO_TEXT = -1


def engine_bos(engine: Engine) -> int:
    return engine._config.talker.tokens.bos


def embedded(
    engine: Engine, columns: list[tuple[int, int]], beside: list[int], codes: torch.Tensor
) -> torch.Tensor:
    """Return the engine's input of a prompt's columns and of frames with their text."""
    talker = engine.talker
    rows = []
    for text, code in columns:
        row = torch.zeros(engine.width)
        row = row + (talker.embed_text(torch.tensor(text)) if text >= 0 else 0)
        rows.append(row + (talker.frame_table.rows[code] if code >= 0 else 0))
    frames = talker.frame_table.frames(codes) + talker.embed_text(torch.tensor(beside))
    return torch.cat((torch.stack(rows), frames))


def test_export_is_complete(checkpoint: Path) -> None:
    assert inspect(checkpoint).problems == ()


def test_another_codec_is_refused(training: Training, tmp_path: Path, checkpoint: Path) -> None:
    codec = checkpoint / CODEC_DIRECTORY
    other = tmp_path / "codec"
    other.mkdir()
    content = json.loads((codec / "config.json").read_text("utf-8"))
    content["decoder_config"]["codebook_size"] = 32
    write_json(other / "config.json", content)
    with pytest.raises(ValueError, match="32 codes"):
        export(training.options.out, other, tmp_path / "out")


def test_both_tokenizers_agree(training: Training) -> None:
    texts = ["Hello there.", "user assistant", "Grüße 你好 12", "\nA line. Another!"]
    engine = load_tokenizer(training.options.out)
    ours = Vocabulary.read(training.options.out)
    assert [list(engine(text)) for text in texts] == ours.encode(texts)


def test_role_is_three_tokens(taught: Corpus) -> None:
    vocabulary = Vocabulary.learn(taught.texts * 4, 300)
    ids = SpecialIds.of(vocabulary, ["lark"])
    assert [list(ids.role[1:])] == vocabulary.encode(["assistant\n"])
    assert len(vocabulary.encode(["user"])[0]) == 1


def test_padding_changes_no_loss(training: Training) -> None:
    flags = np.array([True, False, True, False]), np.array([True, True, False, False])
    narrow, wide = (
        training.batcher.batch(np.arange(4), is_whole=flags[0], is_tagged=flags[1], width=width)
        for width in (0, 96)
    )
    first, second = (
        losses_of(
            training.averaged,
            batch.on(training.device),
            training.taught.codes,
            training.ids.codec_eos,
            reader=training.reader,
        )
        for batch in (narrow, wide)
    )
    assert wide.rows.text.size > narrow.rows.text.size
    torch.testing.assert_close(first.first, second.first)
    torch.testing.assert_close(first.first_accuracy, second.first_accuracy)
    torch.testing.assert_close(first.phonemes, second.phonemes)


def test_dropout_is_for_training_alone(training: Training) -> None:
    model = TrainedModel(training.sizes, dropout=0.5)
    numbers = np.arange(2)
    batch = training.held_out.batch(numbers, is_whole=numbers == 0, is_tagged=numbers == 0)
    on_device = batch.on(training.device)

    def loss() -> float:
        return losses_of(
            model, on_device, training.held_out_codes, training.ids.codec_eos
        ).total.item()

    assert loss() != loss()
    model.eval()
    assert loss() == loss()


def test_updates_are_orthogonal() -> None:
    matrices = torch.randn(3, 12, 20, generator=torch.Generator().manual_seed(0))
    for each in (matrices, matrices.mT):
        sizes = torch.linalg.svdvals(orthogonal(each))
        assert ((sizes > 0.6) & (sizes < 1.3)).all()


@LEARNS
def test_judgement_and_card(
    taught: Corpus,
    learned: Training,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All four utterances end; recognisers, which would hear noise, are left out."""
    monkeypatch.setattr(judge, "find_spec", lambda _: None)
    checkpoint = exported(learned, tmp_path)
    figures = judge.judge(checkpoint, taught.texts, tmp_path / "judged", dtype="float32")
    for layout in ("whole", "late"):
        assert figures[layout]["ended"] + figures[layout]["cut_by_limits"] == 4
        assert figures[layout]["audio_s"] > 0
        assert (tmp_path / "judged" / f"{layout}-03.wav").is_file()
    assert figures["streams_equal_wholes"]
    card = tmp_path / "MODEL_CARD.md"
    judgement = tmp_path / "judged" / "judgement.json"
    write_card(card, "wren", judgement, learned.options.out / "log.jsonl")
    text = card.read_text("utf-8")
    assert "| Utterances that end by themselves | " in text
    assert "$" not in text


def test_words_are_counted() -> None:
    expected = words("It's ten o'clock, really.")
    assert expected == ["it's", "ten", "o'clock", "really"]
    assert num_word_errors(expected, ["it's", "two", "o'clock"]) == 2
    assert num_word_errors(expected, expected) == 0


@pytest.mark.slow  # 60 steps of training
def test_shards_join_a_training(taught: Corpus, tmp_path: Path) -> None:
    training = Training(options_for(tmp_path, taught, most_steps=60, most_hours=1, passages=0.5))
    start = int(training.batcher.num_frames.sum())
    more = replace(random_corpus(30, 9, frames=(6, 12), num_codes=64), speakers=("wren",) * 30)
    more.write(training.options.codes / "codes-00001.npz")
    training.run()
    added = more.chosen(np.flatnonzero(~more.held_out()))
    assert training.num_recordings == 4 + len(added.texts)
    stored = training.taught.codes[start : start + len(added.codes)]
    assert np.array_equal(stored.numpy(), added.codes.astype(np.int16))
    assert training.batcher.num_frames.sum() > start + len(added.codes), "passages are added, too"


def test_training_resumes(
    taught: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = options_for(tmp_path, taught, most_steps=4)
    first = Training(options)
    first.run()
    second = Training(replace(options, resume=True, most_steps=7))
    assert second.num_steps == 4
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])
    second.run()
    assert second.num_steps == 7
    (options.out / "state.pt").unlink()
    third = Training(replace(options, resume=True))
    averages = second.averaged.state_dict()
    for name, tensor in third.model.state_dict().items():
        torch.testing.assert_close(tensor, averages[name], atol=1e-3, rtol=1e-3)
