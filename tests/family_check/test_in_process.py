"""The checks of a family pass for one that is right, and find what is planted in it."""

import asyncio
from typing import Any

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.errors import EngineError
from antiphon.families.toy.codec import ToneCodec
from antiphon.families.toy.talker import ToyRunner
from antiphon.family_check import in_process
from antiphon.family_check.in_process import check_in_process, sound_of
from antiphon.family_check.subject import FamilyCheckPlan, Finding, same

PLAN = FamilyCheckPlan(model=ModelSettings(source="toy", max_slots=4), max_frames=40)


def findings() -> dict[str, Finding]:
    found: list[Finding] = []
    asyncio.run(check_in_process(PLAN, found.append))
    return {each.check: each for each in found}


def failed(monkeypatch: pytest.MonkeyPatch, *checks: str) -> set[str]:
    chosen = {name: in_process._CHECKS[name] for name in checks}
    monkeypatch.setattr(in_process, "_CHECKS", chosen)
    return {name for name, each in findings().items() if not each.is_met} & {*checks}


def test_a_family_that_is_right_passes() -> None:
    found = findings()
    assert len(found) == 11
    assert all(each.is_met for each in found.values() if not each.is_speed)
    assert [name for name, each in found.items() if each.is_speed] == ["offline: RTF"]


def test_a_codec_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ToneCodec.decode_row

    def forgetful(self: ToneCodec, frames: Any, state: Any, slot: int) -> Samples:
        self.reset(state, slot)
        return decode(self, frames, state, slot)

    monkeypatch.setattr(ToneCodec, "decode_row", forgetful)
    assert failed(monkeypatch, "streaming equals whole")


@pytest.mark.slow  # a family is checked as a whole, as by the test above
def test_draws_that_ignore_the_seed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step = ToyRunner.next_frame

    def unseeded(self: ToyRunner, state: Any) -> Any:
        frame = step(self, state)
        return frame if frame is None else frame * [1.0 + 0.01 * np.random.random(), 1.0]

    monkeypatch.setattr(ToyRunner, "next_frame", unseeded)
    checks = {"seeds", "streaming equals whole", "alone equals together"}
    assert failed(monkeypatch, *checks) == checks


@pytest.mark.slow  # a family is checked as a whole, as by the test above
def test_a_frame_that_depends_on_company_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ToneCodec.launch

    def crowded(self: ToneCodec, chunks: list[CodecChunk], frames: Any, state: Any) -> Any:
        return decode(self, chunks, frames * (1.0 + 0.01 * len(chunks)), state)

    monkeypatch.setattr(ToneCodec, "launch", crowded)
    assert failed(monkeypatch, "alone equals together")


def test_a_model_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ToyRunner, state: Any) -> Any:
        if state.num_frames > 20:  # the warm-up is over by then
            raise EngineError("it broke")
        return step(self, state)

    step = ToyRunner.next_frame
    monkeypatch.setattr(ToyRunner, "next_frame", broken)
    monkeypatch.setattr(in_process, "_CHECKS", {})
    found = findings()
    assert not found["offline: audio"].is_met
    assert "failed" in found["offline: audio"].detail


@pytest.mark.parametrize(
    ("samples", "is_met"),
    [
        ([], False),
        ([0.0, 0.00001], False),
        ([0.1, float("nan")], False),
        ([0.1, 1.5], False),
        ([0.1, -0.2], True),
    ],
)
def test_what_is_no_speech_is_found(samples: list[float], is_met: bool) -> None:
    assert sound_of(np.array(samples, np.float32), 1.0)[0] is is_met


def test_differences_are_told() -> None:
    one = np.zeros((4, 2), np.float32)
    other = one.copy()
    other[2:, 1] = 0.5
    assert same(one, one)[0]
    assert same(one, one[:3]) == (False, "4 and 3 samples")
    assert same(one, other) == (False, "2 samples differ, first 2, by up to 5.0e-01")
