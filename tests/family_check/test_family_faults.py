"""Each fault that a family is easily written with is named by the check that looks for it."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.config import ModelSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples
from antiphon.engine.plan import StepPlan
from antiphon.errors import SettingsError
from antiphon.families.toy.codec import ToneCodec
from antiphon.families.toy.talker import ToyFrame, ToyRunner
from antiphon.family_check import in_process
from antiphon.family_check.in_process import ENDS, check_in_process
from antiphon.family_check.reference_check import ExpectedOutput, read_reference
from antiphon.family_check.subject import FamilyCheckPlan, Finding

MIB = 2**20
PLAN = FamilyCheckPlan(model=ModelSettings(source="toy", device="cpu", max_slots=4))
TEXT = "Hello."


def findings(*checks: str, reference: ExpectedOutput | None = None) -> dict[str, Finding]:
    """Return what the checks find that always run, and those of these names."""
    found: list[Finding] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "_CHECKS", {name: in_process._CHECKS[name] for name in checks})
        asyncio.run(check_in_process(PLAN, found.append, reference))
    return {each.check: each for each in found}


def failures(*checks: str, reference: ExpectedOutput | None = None) -> dict[str, str]:
    found = findings(*checks, reference=reference).values()
    return {each.check: each.detail for each in found if not each.is_met and not each.is_speed}


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
def test_a_rate_that_is_not_declared(rate_hz: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToneCodec, "sample_rate_hz", rate_hz)
    assert f"audio of {rate_hz} Hz" in failures()["declared rate and length"]


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_fewer_samples_than_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    tone = ToneCodec._tone
    monkeypatch.setattr(ToneCodec, "_tone", lambda *arguments: tone(*arguments)[:-1])
    assert "the codec declares 960 a frame" in failures()["declared rate and length"]


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_stereo_that_is_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    tone = ToneCodec._tone
    monkeypatch.setattr(
        ToneCodec, "_tone", lambda *arguments: np.stack([tone(*arguments)] * 2, axis=1)
    )
    assert "2 channels, the family declares 1" in failures()["declared rate and length"]


def frames_of(text: str, seed: int) -> list[ToyFrame]:
    from antiphon.contracts.types import Sampling, SpeechRequest
    from antiphon.families.toy.prompt import ToyPrompter

    prompter, runner = ToyPrompter(LoadContext()), ToyRunner(LoadContext())
    request = SpeechRequest(text, sampling=Sampling(temperature=0.5))
    state = runner.start(prompter.build(request, prompter.capabilities.voices[0], seed), [])
    frames = []
    while (frame := runner.next_frame(state)) is not None:
        frames.append(frame)
    return frames


@pytest.fixture
def reference(tmp_path: Path) -> ExpectedOutput:
    frames = np.stack(frames_of(TEXT, 7))
    codec = ToneCodec(LoadContext())
    samples = codec.decode_row(frames, codec.open(1), 0)
    path = tmp_path / "expected.npz"
    np.savez(path, codes=frames, samples=samples, text=TEXT, seed=7)
    return read_reference(path)


def test_a_family_equals_its_reference(reference: ExpectedOutput) -> None:
    found = findings(reference=reference)["equals the reference"]
    assert found.is_met
    assert found.detail.startswith("12 frames are equal; 11520 samples differ by at most 0.0")


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_a_lost_last_frame(reference: ExpectedOutput, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ToyRunner.next_frame

    def hasty(self: ToyRunner, state: Any) -> ToyFrame | None:
        frame = step(self, state)
        return None if state.num_frames == 2 * len(state.letters) else frame

    monkeypatch.setattr(ToyRunner, "next_frame", hasty)
    detail = failures(reference=reference)["equals the reference"]
    assert "11 frames, the reference has 12" in detail
    assert "10560 samples, the reference has 11520" in detail


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize("name", ["codes", "samples"])
def test_other_output_than_the_reference(name: str, reference: ExpectedOutput) -> None:
    expected = {"codes": reference.codes, "samples": reference.samples}[name]
    assert expected is not None
    changed: dict[str, Any] = {name: expected.copy()}
    changed[name][5] += 0.01
    other = replace(reference, **changed)
    assert "differ" in failures(reference=other)["equals the reference"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"text": TEXT, "seed": 1}, "neither 'codes' nor 'samples'"),
        ({"codes": np.zeros((2, 2))}, "no array 'text'; no array 'seed'"),
        ({"text": TEXT, "seed": 1, "codes": np.zeros((2, 2)), "speed": 2}, "'speed'"),
        ({"text": TEXT, "seed": [1, 2], "samples": np.zeros(3)}, "'seed' has the shape"),
        ({"text": TEXT, "seed": 1, "codes": np.zeros((2, 2, 2))}, "'codes' has the shape"),
    ],
)
def test_a_wrong_reference_is_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(SettingsError, match="Invalid '--reference'") as caught:
        read_reference(tmp_path / "wrong.npz")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"no archive", b"PK\x03\x04 torn"])
def test_no_reference_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "none.npz"
    if content is not None:
        path.write_bytes(content)
    expected = "There is no such file" if content is None else "Must be an .npz file"
    with pytest.raises(SettingsError, match=re.escape(expected)):
        read_reference(path)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(SettingsError, match=r"Must be an \.npz file"):
        read_reference(path)


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize("kind", ["bytes", "array", "tensor"])
def test_memory_that_is_never_freed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, kept = ToyRunner.start, list[object]()
    makers: dict[str, Callable[[], object]] = {
        "bytes": lambda: bytearray(MIB),
        "array": lambda: np.ones(MIB, np.uint8),
        "tensor": lambda: torch.ones(MIB, dtype=torch.uint8),
    }

    def leaking(self: ToyRunner, prompt: Prompt, frames: Sequence[ToyFrame]) -> Any:
        kept.append(makers[kind]())
        return start(self, prompt, frames)

    monkeypatch.setattr(ToyRunner, "start", leaking)
    detail = failures("memory")["memory"]  # resident memory grows only where none was free before
    assert ("of tensors" in detail) is (kind == "tensor")
    assert ("of Python memory" in detail) is (kind != "tensor")


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_slots_that_are_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, kept = ToyRunner.launch, list[object]()

    def keeping(self: ToyRunner, plan: StepPlan) -> Any:
        kept.extend(self._states[slot] for slot in plan.releases)
        return launch(self, plan)

    monkeypatch.setattr(ToyRunner, "launch", keeping)
    assert failures("memory")["memory"].endswith("leaves behind: 1 x Letters, 1 x _State")


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize("ignored", ["all", "last"])
def test_resumption_that_ignores_frames(ignored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = ToyRunner.start

    def forgetful(self: ToyRunner, prompt: Prompt, frames: Sequence[ToyFrame]) -> Any:
        state = start(self, prompt, [] if ignored == "all" else frames)
        if ignored == "last":
            state.pitch = 0
        return state

    monkeypatch.setattr(ToyRunner, "start", forgetful)
    assert "frames: " in failures("resuming")["resuming"]


MORE_READS = ("tolist", "cpu", "__bool__", "__float__", "to", "nonzero")


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize(
    "read",
    # Each speaks with a whole family; one read by name and one by a mask stand for the others.
    ["item", "mask", *(pytest.param(read, marks=pytest.mark.slow) for read in MORE_READS)],
)
def test_values_that_are_read_in_a_step(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ToyRunner.next_frame

    def reading(self: ToyRunner, state: Any) -> ToyFrame | None:
        value = torch.ones(1)
        match read:
            case "to":
                value.to("cpu")
            case "mask":
                value[value > 0]
            case _:
                getattr(value, read)()
        return step(self, state)

    monkeypatch.setattr(ToyRunner, "next_frame", reading)
    detail = failures("no reads in a step")["no reads in a step"]
    assert "() at test_family_faults.py:" in detail
    assert "(reading)" in detail


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_values_that_a_codec_reads_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ToneCodec.decode_row

    def reading(self: ToneCodec, frames: Any, state: Any, slot: int) -> Samples:
        torch.from_numpy(frames).sum().item()
        return decode(self, frames, state, slot)

    monkeypatch.setattr(ToneCodec, "decode_row", reading)
    assert (
        ".item() at test_family_faults.py:" in failures("no reads in a step")["no reads in a step"]
    )


@pytest.mark.slow  # a family is checked as a whole, as in each of these
def test_computing_in_a_step_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    step = ToyRunner.next_frame

    def computing(self: ToyRunner, state: Any) -> ToyFrame | None:
        value = torch.where(torch.ones(2) > 0, torch.zeros(2), 1.0)
        value[torch.tensor([1])] = torch.arange(1.0)
        return None if (frame := step(self, state)) is None else frame + value.numpy()

    monkeypatch.setattr(ToyRunner, "next_frame", computing)
    found = findings("no reads in a step")["no reads in a step"]
    assert found.is_met
    assert "launches" in found.detail


@pytest.mark.slow  # a family is checked as a whole, as in each of these
@pytest.mark.parametrize("limit", [2000, None])
def test_speech_that_never_ends(limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from antiphon.contracts.types import Sampling
    from antiphon.families.registry import family

    step = ToyRunner.next_frame

    def endless(self: ToyRunner, state: Any) -> ToyFrame | None:
        state.letters += [ord("a")] * (state.num_frames >= 2 * len(state.letters))
        return step(self, state)

    monkeypatch.setattr(ToyRunner, "next_frame", endless)
    task = family("toy").tasks["speech"]
    object.__setattr__(task, "sampling", Sampling(temperature=0.5, max_frames=limit))
    try:
        found = failures(*in_process._CHECKS)
    finally:
        object.__setattr__(task, "sampling", Sampling(temperature=0.5, max_frames=2000))
    assert [*found] == [ENDS]
    assert ("no end" if limit else "no limit of frames") in found[ENDS]
