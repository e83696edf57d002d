"""States made of columns of ids against PyTorch lines, on a GPU or in Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.backends import TritonBackend
from antiphon.nn.code_predictor import FrameTable
from antiphon.nn.id_columns import CODE, REST, TEXT, num_words, packed_codes
from antiphon.nn.kernels.column_embedding import ColumnTables, embed_columns, put_frames

pytestmark = pytest.mark.gpu

NOTHING, VECTOR, FRAME = -1, -2, -3
WIDTH, NUM_CODES, NUM_VECTORS = 70, 9, 5


class Tables:
    """Tables of random numbers, and columns of everything that there can be."""

    def __init__(self, dtype: torch.dtype, num_groups: int) -> None:
        generator = torch.Generator().manual_seed(num_groups)

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator)

        self.text = drawn(NUM_CODES, WIDTH).to(DEVICE, dtype)
        sizes = [NUM_CODES + group % 3 for group in range(num_groups)]
        self.frames = FrameTable.of([drawn(size, WIDTH).to(DEVICE, dtype) for size in sizes])
        self.vectors = drawn(NUM_VECTORS, WIDTH).to(DEVICE)
        self.codes = torch.randint(0, NUM_CODES, (40, num_groups), generator=generator)
        self.words = torch.from_numpy(packed_codes(self.codes.numpy()))
        self.columns = torch.full((REST + num_words(num_groups), 40), NOTHING)
        self.columns[TEXT] = torch.randint(NOTHING, NUM_CODES, (40,), generator=generator)
        self.columns[CODE] = torch.randint(FRAME, NUM_CODES, (40,), generator=generator)
        is_frame, is_vector = self.columns[CODE] == FRAME, self.columns[CODE] == VECTOR
        self.columns[REST:, is_frame] = self.words[is_frame].T
        self.columns[REST, is_vector] = torch.arange(40)[is_vector] % NUM_VECTORS
        assert is_frame.any()
        assert is_vector.any()

    def embedded(self, codes: torch.Tensor) -> torch.Tensor:
        """Return embeddings of frames as a GPU adds them up."""
        table = self.frames
        return TritonBackend().sum_embeddings(codes.to(DEVICE) + table.offsets, table.rows)

    def looked_up(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        rows = F.embedding(ids.clamp(min=0).to(DEVICE), table)
        return torch.where((ids >= 0)[:, None].to(DEVICE), rows, 0.0)


@pytest.mark.parametrize("num_groups", [4, 16, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_columns_become_the_states_that_pytorch_makes_of_them(
    dtype: torch.dtype, num_groups: int
) -> None:
    made = Tables(dtype, num_groups)
    text, code = made.columns[TEXT], made.columns[CODE]
    expected = made.looked_up(text, made.text) + made.looked_up(code, made.frames.rows)
    is_frame, is_vector = (code == FRAME).to(DEVICE), (code == VECTOR).to(DEVICE)
    frames = made.embedded(made.codes)
    vectors = made.vectors[made.columns[REST].to(DEVICE) % NUM_VECTORS].to(dtype)
    expected = torch.where(is_frame[:, None], expected + frames, expected)
    expected = torch.where(is_vector[:, None], expected + vectors, expected)
    tables = ColumnTables(
        made.text, made.frames.rows, made.frames.offsets, made.vectors, frame=FRAME, vector=VECTOR
    )
    assert torch.equal(embed_columns(made.columns.to(DEVICE), tables), expected)


@pytest.mark.parametrize("num_groups", [4, 16, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_frames_are_put_where_they_are_told_to(dtype: torch.dtype, num_groups: int) -> None:
    made = Tables(dtype, num_groups)
    target = torch.zeros(6, WIDTH, dtype=dtype, device=DEVICE)
    rows = torch.tensor([4, 0, 3])
    told = torch.cat((rows[:, None], made.codes[:3]), dim=1).to(DEVICE)
    put_frames(told, (made.frames.rows, made.frames.offsets), target)
    expected = torch.zeros_like(target)
    expected[rows.to(DEVICE)] = made.embedded(made.codes[:3])
    assert torch.equal(target, expected)
