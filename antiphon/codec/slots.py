"""The rows of a batched decoder: which are taken, and by whom."""

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class DecoderStream:
    """A stream under way; it has a slot from its first frames until it is closed."""

    slot: int | None = None
    is_fresh: bool = True
    is_open: bool = True


class SlotPool:
    """Hands out numbers from 0 up to a limit, the lowest free one first."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._free = list(range(num_slots))
        self._taken: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self) -> int | None:
        """Return a free slot, or ``None`` if there is none."""
        if not self._free:
            return None
        slot = min(self._free)
        self._free.remove(slot)
        self._taken.add(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """Make a taken slot free again."""
        assert slot in self._taken, f"slot {slot} is not taken"
        self._taken.remove(slot)
        self._free.append(slot)

    def check_integrity(self) -> None:
        """Assert that every slot is either free or taken, once."""
        assert sorted([*self._free, *self._taken]) == list(range(self.num_slots))
