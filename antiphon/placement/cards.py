"""GPUs by name, with what their makers state of memory, bandwidth and arithmetic."""

from dataclasses import dataclass

from antiphon.errors import SettingsError
from antiphon.nn.cuda.resident_limits import BFLOAT16_CAPABILITY, CAPABILITY, NUM_BLOCKS

_EARLY_LAUNCH = (9, 0)


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU.

    Attributes:
        bandwidth_gbs: memory bandwidth in 10^9 bytes a second.
        tflops: bfloat16 on tensor cores with float32 sums, without sparsity, or float32 if models
            compute in that; ``None``: not known.
        multiprocessors: number of multiprocessors; 0: unknown.
    """

    name: str
    memory_gib: float
    bandwidth_gbs: float
    tflops: float | None = None
    capability: tuple[int, int] = _EARLY_LAUNCH
    multiprocessors: int = 0

    @property
    def has_bfloat16(self) -> bool:
        """Whether models compute in bfloat16; otherwise in float32."""
        return self.capability >= BFLOAT16_CAPABILITY

    @property
    def keeps_programs(self) -> bool:
        """Whether a model's program stays on it instead of being launched kernel by kernel."""
        return self.capability == CAPABILITY and self.multiprocessors >= NUM_BLOCKS

    @property
    def launches_early(self) -> bool:
        """Whether a kernel can begin before the one in front of it has ended."""
        return self.capability >= _EARLY_LAUNCH


CARDS = (
    Card("H200", 140, 4800, 989, (9, 0), 132),
    Card("H100 SXM", 80, 3350, 989, (9, 0), 132),
    Card("H100 PCIe", 80, 2000, 756, (9, 0), 114),
    Card("A100 80GB", 80, 2039, 312, (8, 0)),
    Card("A100 40GB", 40, 1555, 312, (8, 0)),
    Card("L40S", 48, 864, 362, (8, 9)),
    Card("L4", 24, 300, 121, (8, 9)),
    Card("A10", 24, 600, 125, (8, 6)),
    Card("A2", 16, 200, 18, (8, 6)),
    Card("T4", 16, 320, 8.1, (7, 5)),
    Card("RTX 2060", 6, 336, 6.5, (7, 5)),
    Card("RTX 2080 Ti", 11, 616, 13.4, (7, 5)),
    Card("RTX 3050 Laptop", 4, 192, 14, (8, 6)),
    Card("RTX 3050 6GB", 6, 168, 13.5, (8, 6)),
    Card("RTX 3050 8GB", 8, 224, 18, (8, 6)),
    Card("RTX 3060", 12, 360, 25, (8, 6)),
    Card("RTX 3070", 8, 448, 41, (8, 6)),
    Card("RTX 3080", 10, 760, 60, (8, 6)),
    Card("RTX 3090", 24, 936, 71, (8, 6)),
    Card("RTX A6000", 48, 768, 155, (8, 6)),
    Card("RTX 4050 Laptop", 6, 192, 18, (8, 9)),
    Card("RTX 4060", 8, 272, 30, (8, 9)),
    Card("RTX 4070", 12, 504, 58, (8, 9)),
    Card("RTX 4090", 24, 1008, 165, (8, 9)),
    Card("RTX 6000 Ada", 48, 960, 364, (8, 9)),
    Card("RTX 5060", 8, 448, 38, (12, 0)),
    Card("RTX 5070", 12, 672, 62, (12, 0)),
    Card("RTX 5090", 32, 1792, 210, (12, 0)),
)
"""Of the makers' data sheets; some arithmetic in proportion to that of others of a generation."""


def card_of(name: str) -> Card:
    """Return a card by its name, in any case, with or without spaces and the maker's name.

    A part of a name, such as "4090", is enough if it is a part of no other.

    Raises:
        SettingsError: there is none of this name, or there are several.
    """
    wanted = _plain(name)
    found = [card for card in CARDS if _plain(card.name) == wanted] or [
        card for card in CARDS if wanted and wanted in _plain(card.name)
    ]
    if len(found) == 1:
        return found[0]
    problem = "may be several" if found else "is not known"
    names = ", ".join(card.name for card in found or CARDS)
    raise SettingsError(
        f"--card: '{name}' {problem}: {names}. For another one, give --device-memory-gib and"
        " --bandwidth-gbs."
    )


def _plain(name: str) -> str:
    words = name.lower().replace("-", " ").split()
    return "".join(word for word in words if word not in ("nvidia", "geforce"))
