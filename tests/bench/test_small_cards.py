"""What a run on a small card is reported to have ended with."""

import pytest

from tests.bench.small_cards import CARDS, chosen, last_error

LOG = """\
Traceback (most recent call last):
  File "antiphon/engine/model_runner/kv_cache.py", line 93, in __init__
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 450.00 MiB.
{after}
"""


@pytest.mark.parametrize(
    "after", ["/tmp/random: was made without weights; random ones are drawn.", "UserWarning: old"]
)
def test_the_error_is_reported_and_no_warning_after_it(after: str) -> None:
    error = last_error(LOG.format(after=after))
    assert error.startswith("torch.OutOfMemoryError")
    assert error.endswith("450.00 MiB.")


def test_without_an_error_the_last_lines_are_reported() -> None:
    assert last_error("loading\nserving\n") == "loading\nserving"


def test_cards_are_chosen_by_size() -> None:
    assert [card.gib for card in CARDS][:3] == [3, 4, 2.5]
    assert chosen(None) == [*CARDS]
    assert [card.gib for card in chosen("2.5,3")] == [3, 2.5]
    with pytest.raises(ValueError, match=r"5.*3, 4, 2.5"):
        chosen("5")
