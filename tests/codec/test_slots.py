"""Slots are handed out once each and come back."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.codec.slots import SlotPool


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=60))
def test_no_slot_is_taken_twice_and_none_is_lost(num_slots: int, takes: list[bool]) -> None:
    pool = SlotPool(num_slots)
    taken: list[int] = []
    for take in takes:
        if take:
            slot = pool.take()
            assert (slot is None) == (len(taken) == num_slots)
            if slot is not None:
                assert slot not in taken
                taken.append(slot)
        elif taken:
            pool.give_back(taken.pop(0))
        pool.check_integrity()
        assert pool.num_free == num_slots - len(taken)
