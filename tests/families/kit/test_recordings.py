"""A recording is encoded once for each purpose, and told apart by its samples."""

import numpy as np

from antiphon.families.kit.recordings import KeptRecordings, known_text, warm_up_samples


def test_what_was_made_lately_is_not_made_again() -> None:
    kept: KeptRecordings[int] = KeptRecordings(2)
    made: list[str] = []

    def maker(name: str) -> int:
        made.append(name)
        return len(made)

    one, other = warm_up_samples(100), warm_up_samples(100, 2.0)
    assert kept.get(one, lambda: maker("one")) == 1
    assert kept.get(one.copy(), lambda: maker("one again")) == 1
    assert kept.get(one, lambda: maker("one, continued"), "continued") == 2
    assert kept.get(other, lambda: maker("other")) == 3
    assert kept.get(one, lambda: maker("one, forgotten")) == 4
    assert made == ["one", "one, continued", "other", "one, forgotten"]


def test_encoders_are_warmed_with_the_same_noise_every_time() -> None:
    samples = warm_up_samples(24_000, 0.5)
    assert samples.dtype == np.float32
    assert len(samples) == 12_000
    assert 0.05 < samples.std() < 0.2
    np.testing.assert_array_equal(samples, warm_up_samples(24_000, 0.5))


def test_a_blank_text_is_one_that_is_not_known() -> None:
    assert [known_text(each) for each in (None, "", " \n", " So. ")] == [None, None, None, " So. "]
