"""Which blocks each request holds: shared ones, then its own; grown as its speech grows."""

from antiphon.engine.block_pool import BlockPool, block_names
from antiphon.engine.plan import CacheShape
from antiphon.engine.request import EngineRequest
from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt


class BlockTables:
    """The tables of all requests of one engine, and the pool behind them.

    Attributes:
        block_positions: positions that a block holds.
        max_replayed: positions of frames that a step may compute again.
    """

    def __init__(self, shape: CacheShape) -> None:
        self.pool = BlockPool(shape.num_blocks)
        self.block_positions = shape.block_positions
        self.max_replayed = shape.max_positions
        if shape.replayed_positions is not None:
            self.max_replayed = shape.replayed_positions
        self._max_positions = min(shape.max_positions, shape.num_blocks * shape.block_positions)
        self._to_publish: list[EngineRequest] = []

    def max_frames(self, prompt: Prompt) -> int:
        """Return how many frames there is room for after a prompt.

        Raises:
            InvalidRequestError: not for one.
        """
        num_frames = self._max_positions - prompt.num_positions
        if num_frames < 1:
            raise InvalidRequestError(
                f"Invalid 'input': it takes {prompt.num_positions} positions; the model has room "
                f"for {self._max_positions - 1} and an answer.",
                param="input",
                code="context_length_exceeded",
            )
        return num_frames

    def enter(self, request: EngineRequest) -> None:
        """Note what a new request will need; it holds nothing yet."""
        names = block_names(request.prompt.position_keys, self.block_positions)
        request.names = names[: request.prompt.num_positions // self.block_positions]
        request.num_positions_needed = request.prompt.num_positions

    def num_missing(self, request: EngineRequest) -> int:
        """Return how many blocks must be available for a request to begin with its next frame."""
        num_found, num_unused = self.pool.num_found(request.names)
        return self._num_blocks_for(request) - num_found + num_unused

    def begin(self, request: EngineRequest) -> None:
        """Hold blocks for all that comes before the next frame, and for that frame."""
        assert not request.blocks, "the request has begun already"
        request.blocks = self.pool.find(request.names)
        request.num_published = len(request.blocks)
        request.num_positions_planned = len(request.blocks) * self.block_positions
        request.num_positions_needed = request.prompt.num_positions + request.num_frames
        request.blocks += self.pool.take(self._num_blocks_for(request) - len(request.blocks))
        self._count_frames(request)

    def grow(self, request: EngineRequest) -> tuple[int, ...]:
        """Hold one block more; return it."""
        blocks = self.pool.take(1)
        request.blocks += blocks
        self._count_frames(request)
        return tuple(blocks)

    def part_end(self, request: EngineRequest, num_positions: int, num_replayed: int) -> int:
        """Return where the next part of what a request must compute ends.

        Args:
            request: whose part it is; it begins where a block does, unless all are read.
            num_positions: that there is time for.
            num_replayed: the same, of frames that it has made.
        """
        start, num_read = request.num_positions_planned, request.prompt.num_positions
        end = min(request.num_positions_needed, start + num_positions)
        if end < num_read:
            return end - end % self.block_positions
        return min(end, max(start, num_read) + num_replayed)

    def prefill(self, request: EngineRequest, num_positions: int) -> None:
        """Note that the plan being made computes as many positions more."""
        request.num_positions_planned += num_positions
        if request.num_published < len(request.names):
            self._to_publish.append(request)

    def publish(self) -> None:
        """Let others find what was written in the plan before; called before a plan is begun."""
        for request in self._to_publish:
            num_written = request.num_positions_planned // self.block_positions
            num_full = min(num_written, len(request.names), len(request.blocks))
            for index in range(request.num_published, num_full):
                self.pool.publish(request.blocks[index], request.names[index])
            request.num_published = max(request.num_published, num_full)
        self._to_publish.clear()

    def distrust(self, request: EngineRequest) -> None:
        """Share with nobody any more what a request has read: something in it went wrong."""
        self.pool.withdraw(request.names)

    def free(self, request: EngineRequest) -> None:
        """Hold nothing any more; plans to come may give the blocks to others."""
        self.pool.give_back(request.blocks)
        request.blocks = []
        request.num_published = request.num_positions_planned = request.frames_held = 0

    def _num_blocks_for(self, request: EngineRequest) -> int:
        num_positions = request.prompt.num_positions + request.num_frames + 1
        return -(-num_positions // self.block_positions)

    def _count_frames(self, request: EngineRequest) -> None:
        num_positions = len(request.blocks) * self.block_positions
        request.frames_held = num_positions - request.prompt.num_positions
