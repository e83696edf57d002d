"""A draw in one launch is that of PyTorch lines: nucleus, repetitions, and the held end."""

from functools import partial

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.sampling import NUM_COLUMNS
from antiphon.families.cosyvoice3.language_model import draw_nucleus as drawn_by_lines
from antiphon.nn.kernels.nucleus_draw import DrawSlots, draw_nucleus
from antiphon.nn.sampler import RepetitionAware, SamplingReach, SamplingRows, gumbel_noise
from tests.kernels import DEVICE, random, why_not_here

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here"),
]
VOCABULARY, FIRST_END, WINDOW, KEPT = 300, 280, 10, 64
draw = partial(draw_nucleus, first_end=FIRST_END, window=WINDOW, max_share=0.1)


@pytest.mark.parametrize("step", [0.0, 0.5], ids=["distinct", "many equal"])
def test_the_same_tokens_are_drawn(step: float) -> None:
    kinds = [(k, p) for k in (1, 25, VOCABULARY) for p in (1.0, 0.8, 0.3, 0.01)]
    num_slots, heats = len(kinds), (1.0, 0.0, 0.7, 2.0)
    slots = torch.arange(num_slots, device=DEVICE).flip(0)
    frames = torch.tensor((3, 9, 70, 12, 0, 200) * 2, device=DEVICE)
    wide = 3 * random(len(slots), VOCABULARY + 20)
    wide[1:3, FIRST_END:] += 9.0  # speech is likely to end
    if step:
        wide = (wide / step).round() * step
    logits = wide[:, :VOCABULARY]
    parameters = torch.ones(num_slots, NUM_COLUMNS, device=DEVICE)
    parameters[:, 0] = torch.tensor(heats).repeat(num_slots // len(heats))
    parameters[:, 1:3] = torch.tensor(kinds)
    min_frames = torch.zeros(num_slots, dtype=torch.int64, device=DEVICE)
    min_frames[slots[1]], min_frames[slots[2]] = 10, 70
    state = DrawSlots(
        parameters,
        torch.arange(2 * num_slots, device=DEVICE).view(num_slots, 2),
        min_frames,
        torch.randint(FIRST_END, (num_slots, KEPT, 1), device=DEVICE),
    )
    likeliest = logits.argmax(dim=1)
    for row in (0, 3, 5, 6, 9):  # was drawn lately
        state.frame_store[slots[row], (frames[row] - 2) % KEPT] = likeliest[row]
    codes = torch.empty(len(slots), 2, dtype=torch.int64, device=DEVICE)
    scores = torch.empty(len(slots), 1, device=DEVICE)
    draw(logits, slots, frames, state, (codes[:, 0], scores[:, 0]))

    is_end = torch.arange(VOCABULARY, device=DEVICE) >= FIRST_END
    is_early = frames < state.min_frames[slots]
    held = logits.masked_fill(is_end & is_early[:, None], -torch.inf)
    temperature, counts, shares = parameters[slots, :3].unbind(1)
    reach = SamplingReach(VOCABULARY, uses_top_p=True)
    rows = SamplingRows(temperature, counts.long(), shares, shares, reach)
    noise = gumbel_noise(
        state.seeds[slots], frames, torch.tensor((0, 1), device=DEVICE), VOCABULARY
    )
    first = drawn_by_lines(held, rows, noise[:, 0])
    numbers = frames[:, None] - torch.arange(1, WINDOW + 1, device=DEVICE)
    recent = state.frame_store[slots[:, None], numbers % KEPT, 0]
    recent = torch.where(numbers >= 0, recent, -1)
    others = held.scatter(1, first[0][:, None], -torch.inf)
    wanted = RepetitionAware(recent, noise[:, 1])(others, rows, first)
    assert torch.equal(codes[:, 0], wanted[0])
    torch.testing.assert_close(scores[:, 0], wanted[1])
    assert (first[0] != wanted[0]).any(), "none was redrawn"
    if step:  # bfloat16 holds them all
        draw(
            wide.bfloat16()[:, :VOCABULARY],
            slots,
            frames,
            state,
            (codes[:, 0], scores[:, 0]),
        )
        assert torch.equal(codes[:, 0], wanted[0])


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy tells of NaN in the interpreter
def test_nan_has_no_score() -> None:
    logits = random(2, VOCABULARY)
    logits[0] = torch.nan
    zeros = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    parameters = torch.tensor([[0.9, 25.0, 0.8]], device=DEVICE).repeat(2, 1)
    state = DrawSlots(
        parameters, torch.zeros(2, 2, dtype=torch.int64, device=DEVICE), zeros, zeros[:, None, None]
    )
    tokens, scores = torch.empty_like(zeros), torch.empty(2, device=DEVICE)
    draw(logits, torch.arange(2, device=DEVICE), zeros, state, (tokens, scores))
    assert ((tokens >= 0) & (tokens < VOCABULARY)).all()
    assert scores.isnan().tolist() == [True, False]
