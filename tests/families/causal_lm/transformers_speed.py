"""How fast transformers generates, on the random weights that `antiphon bench chat` measures.

    python -m tests.families.causal_lm.transformers_speed --random-dir kept --json transformers.json

Its own `generate`: eager, with a cache, all answers as one batch of prompts of equal length,
greedy, which costs it the least. As in `antiphon bench chat`, each answer has so many tokens,
whatever they are.
"""

import time
from typing import Any

import torch

from tests.bench.peer import device_of, peer_flags, report, weights_of
from tests.families.causal_lm.official import official_thinker

_PROMPT_TOKENS = 105  # those of `antiphon bench chat`
_NUM_BYTES = 256
_WARM_UP_TOKENS = 8


def generate_s(model: Any, ids: torch.Tensor, num_tokens: int) -> float:
    """Return how long it takes to continue a batch of prompts [B, T] by so many tokens each."""
    begun_s = time.perf_counter()
    made = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=num_tokens,
        max_new_tokens=num_tokens,
        do_sample=False,
        repetition_penalty=1.0,
        pad_token_id=_NUM_BYTES,
    ).cpu()  # waits for the device
    assert made.shape[1] == ids.shape[1] + num_tokens
    return time.perf_counter() - begun_s


def measure(model: Any, device: str, concurrency: int, num_tokens: int) -> dict[str, float]:
    """Return the figures of so many answers at a time."""
    ids = torch.randint(0, _NUM_BYTES, (concurrency, _PROMPT_TOKENS), device=device)
    generate_s(model, ids, _WARM_UP_TOKENS)
    first_s = generate_s(model, ids, 1)
    all_s = generate_s(model, ids, num_tokens)
    return {
        "concurrency": concurrency,
        "num_tokens": concurrency * num_tokens,
        "num_prompt_tokens": _PROMPT_TOKENS,
        "step_ms": (all_s - first_s) * 1000 / (num_tokens - 1),
        "tokens_per_s": concurrency * num_tokens / all_s,
        "first_token_ms": first_s * 1000,
    }


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "7b")
    parser.add_argument("--concurrency", default="1,64", help="answers at a time")
    parser.add_argument("--tokens", type=int, default=200, help="of each answer")
    given = parser.parse_args()
    torch.manual_seed(0)
    device = device_of(given.device)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    model = official_thinker(weights_of(given, "causal_lm", "thinker"), device, dtype)
    counts = [int(each) for each in given.concurrency.split(",")]
    report(given, "transformers", [measure(model, device, each, given.tokens) for each in counts])


if __name__ == "__main__":
    main()
