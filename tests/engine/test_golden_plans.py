"""Plans of simulated mixed traffic are, to the byte, those that were recorded.

A change that is meant to plan otherwise records the digests again: ``python -m
tests.engine.plan_record 30``.
"""

import pytest

from tests.engine.plan_record import SCENARIOS, Recording

DURATION_S = 30.0
DIGESTS = {
    "frames": "d331268ead27cf27079bfe203cc640237a51a319d993907d69c42b19bb67b082",
    "causal": "a675dd639f631f2280e8c943d875f35e38667aa5f3af48d60dafc2bcdc670acf",
    "causal, few sizes": "3aa592ee6af92c1998923a3f9771f0b74d0e97d34979898db6df309ea8f24a0e",
    "look-ahead": "751a16b7eb99712f0f05bb56de02c3965544fc04d9fb26b1ede4ce0969c91beb",
    "look-ahead, batched": "72ff57286df59e098df75a5f4c3233aa50d5a3db657ae368631cfe10dc9793ce",
    "upstream": "56f455505bee0f7eb532c66bfe5a26c39e409848f193f2241de27496b6027f5d",
    "upstream, look-ahead": "013df5d8b23e935782aaa336536ab1529d7f7f7291c46af7a55c3ec89627352e",
    "elastic": "9d070734b8e0d23736ba5621e71404d07664c190d1d97c5f5a367e117876859e",
    "elastic, grouped": "f63057b6d2203e0a304113d19b1daa1ef73a9d1c0549711a0afed5b57fe8e235",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_plans_are_those_that_were_recorded(name: str) -> None:
    recording = Recording(SCENARIOS[name], DURATION_S)
    assert recording.run() == DIGESTS[name]
    assert {"stop", "length", "error", "aborted", "refused"} <= set(recording.num_events)
    assert recording.num_events["preempted"] > 0
