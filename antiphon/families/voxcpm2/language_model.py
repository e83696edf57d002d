"""Autoregressive model over patches, from both language models and the networks inside a step.

In a step, the base model reads the previous patch or the end of the prompt, and its output is
quantized. The residual model reads that together with the patch. The flow generates a patch from
both outputs, which is then encoded for the next step. A step reads and writes only tensors and
needs no synchronisation with the device.
"""

from collections.abc import Sequence
from typing import TypeAlias, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, SlotStart
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.families.kit.mixed.model import MixedPromptModel
from antiphon.families.kit.mixed.prompt import FRAME
from antiphon.families.voxcpm2.checkpoint import model_part
from antiphon.families.voxcpm2.config import DEFAULT_STEPS, MAX_STEPS, VoxCPM2Config, load_config
from antiphon.families.voxcpm2.flow import Flow, FlowInputs
from antiphon.families.voxcpm2.networks import NetworkBuilder, PatchEncoder, Quantizer, StopHead
from antiphon.families.voxcpm2.request import VoxCPM2Prompt, patches_of
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.backends import backend_of
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.graphs import round_up
from antiphon.nn.weights import open_weights

_STEP_BUCKETS = (4, 6, 8, DEFAULT_STEPS, 16, 25, MAX_STEPS)
VoxCPM2Runner: TypeAlias = ModelRunner[VoxCPM2Prompt]


class VoxCPM2Model(MixedPromptModel[VoxCPM2Prompt]):
    """Language model of patches of latents.

    An input is the base model's input, followed by the residual model's additional input: the same
    for a patch, zeros for text. A hidden state holds the outputs of both.

    Attributes:
        like: scaled text embedding.
        width: twice the hidden size.
    """

    def __init__(
        self, builder: NetworkBuilder, config: VoxCPM2Config, *, num_slots: int, max_positions: int
    ) -> None:
        """Build the model; ``max_positions`` of prompt and frames together."""
        table = builder.weights["base_lm.embed_tokens.weight"] * config.embedding_scale
        sizes = {"width": 2 * config.base.hidden_size, "frame_size": config.frame_size}
        super().__init__(table, num_slots=num_slots, max_positions=max_positions, **sizes)
        base, residual, *_ = config.branch_scales
        self._config = config
        self._base = builder.transformer("base_lm", config.base, base, max_positions)
        self._residual = builder.transformer(
            "residual_lm", config.residual, residual, max_positions
        )
        self._encoder = PatchEncoder.of(builder, config)
        self._flow = Flow.of(builder, config)
        self._quantizer = Quantizer.of(builder, config)
        self._stop = StopHead.of(builder)
        self._from_encoder = builder.linear("enc_to_lm_proj")
        self._join = builder.linear("fusion_concat_proj")
        self._to_flow = (builder.linear("lm_to_dit_proj"), builder.linear("res_to_dit_proj"))
        self._hidden_size = config.base.hidden_size
        self._backend = backend_of(self.like)
        num_rows, patch = num_slots + 1, (config.patch_size, config.feature_size)
        device = self._device
        # Per slot: the next input, the latest patch, whether it was the last one, the positions
        # of patches, guidance and number of steps of the flow.
        self._pending = self.like.new_zeros(num_rows, self.width)
        self._latest = torch.zeros(num_rows, *patch, device=device)
        self._has_ended = torch.zeros(num_rows, dtype=torch.bool, device=device)
        self._bounds = torch.zeros(num_rows, 3, dtype=torch.int64, device=device)
        self._guidance = torch.ones(num_rows, device=device)
        self._num_steps = torch.full((num_rows,), DEFAULT_STEPS, device=device)
        self._host_num_steps = [DEFAULT_STEPS] * num_rows
        self._noise_index = torch.zeros(1, dtype=torch.int64, device=device)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._base.kv_shape, self._residual.kv_shape)

    def open(self, prompt: Prompt, frames: Codes) -> VoxCPM2Prompt:
        return super().open(prompt, patches_of(frames))

    def start(self, starts: Sequence[SlotStart[VoxCPM2Prompt]], uploads: PackedUpload) -> None:
        size = self._config.frame_size - 1
        numbers = np.zeros((len(starts), 7), np.int64)
        patches = np.zeros((len(starts), size))
        for row, patch, each in zip(numbers, patches, starts, strict=True):
            request, flow = each.request, each.request.flow
            last = each.prompt.num_positions + each.next_frame
            has_ended = each.next_frame > 0 and each.frames[each.next_frame - 1, 0] != 0
            row[:] = each.slot, request.ids[last], has_ended, flow.num_steps, *request.bounds
            if request.ids[last] == FRAME:
                patch[:] = request.frames_between(last, last + 1)[0]
            self._host_num_steps[each.slot] = flow.num_steps
        guidance = np.array([each.request.flow.guidance for each in starts], np.float64)
        uploads.add(self._begin, numbers, patches, guidance)

    def _begin(self, numbers: Tensor, patches: Tensor, guidance: Tensor) -> None:
        """Write the slots of new requests, and embed their first inputs."""
        slots, ids = numbers[:, 0], numbers[:, 1]
        patches = patches.float()
        self._latest[slots] = self._shaped(patches)
        self._has_ended[slots] = numbers[:, 2] != 0
        self._num_steps[slots] = numbers[:, 3]
        self._bounds[slots] = numbers[:, 4:]
        self._guidance[slots] = guidance.float()
        is_patch, text = (ids == FRAME)[:, None], self.embed_text(ids.clamp(min=0))
        self._pending[slots] = torch.where(is_patch, self.embed_frames(patches), text)

    def sampling_shape(self, slots: Sequence[int]) -> int:
        """Return an upper bound of the flow's steps, from few values: each has its own graph."""
        most = max((self._host_num_steps[slot] for slot in slots), default=DEFAULT_STEPS)
        return round_up(most, _STEP_BUCKETS) if self.uses_kernels else most

    def next_states(self, slots: Tensor) -> Tensor:
        return self._pending[slots]

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        read, beside = self._halves(states)
        base = self._base(read, self._base.rope.at(positions), attends[0])
        start, end, first = self._bounds[slots].unbind(-1)
        is_patch = ((positions >= start) & (positions < end)) | (positions >= first)
        base = torch.where(is_patch[..., None], self._quantizer(base), base)
        joined = self._join(torch.cat((base, beside), dim=-1))
        residual = self._residual(joined, self._residual.rope.at(positions), attends[1])
        return torch.cat((base, residual), dim=-1)

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: int) -> Frames:
        frames, slots = Frames.empty(len(inputs.slots), self.slots), inputs.slots
        base, residual = self._halves(hidden)
        to_base, to_residual = self._to_flow
        given = FlowInputs(
            noise=self._noise(inputs),
            conditions=torch.stack((to_base(base), to_residual(residual)), dim=1),
            previous=self._latest[slots],
            guidance=self._guidance[slots],
            num_steps=self._num_steps[slots],
            most_steps=sampling,
        )
        patches = self._flow.make(given)
        # The frame with the stop flag is the last one, and counts towards the minimum.
        frames.codes[:, 0] = self._stop(base) & (inputs.frames + 1 >= self.slots.min_frames[slots])
        frames.codes[:, 1:-1] = patches.flatten(1).view(torch.int32)
        frames.scores.zero_()
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes, slots = frames.codes[:, :-1], inputs.slots
        patches = codes[:, 1:].int().view(torch.float32)
        self._latest[slots] = self._shaped(patches)
        self._pending[slots] = self.embed_frames(patches)
        # A slot reports its end in the step after its last frame.
        is_end, is_finite = self._has_ended[slots], patches.isfinite().all(dim=1)
        self.finish(frames, inputs, is_replay=is_replay, is_end=is_end, is_finite=is_finite)
        self._has_ended[slots] = codes[:, 0] != 0

    def _noise(self, inputs: Inputs) -> Tensor:
        """Return the initial noise of frames, ``[rows, patch_size, feature_size]``."""
        seeds, size = self.slots.seeds[inputs.slots], self._config.frame_size - 1
        noise = self._backend.gaussian_noise(seeds, inputs.frames, self._noise_index, size)
        return self._shaped(noise[:, 0])

    def _halves(self, both: Tensor) -> tuple[Tensor, Tensor]:
        """Split the inputs or outputs of the two models, ``[..., width]``."""
        first, second = both.chunk(2, dim=-1)
        return first.contiguous(), second.contiguous()

    def _shaped(self, patches: Tensor) -> Tensor:
        return patches.view(-1, self._config.patch_size, self._config.feature_size)

    def embed_text(self, ids: Tensor) -> Tensor:
        return F.pad(F.embedding(ids, self.like), (0, self._hidden_size))

    def embed_frames(self, frames: Tensor) -> Tensor:
        patches = self._shaped(frames)
        # On the CPU one by one, because batched products differ in the last bits.
        parts = (patches,) if self.uses_kernels else torch.split(patches, 1)
        return torch.cat([self._from_encoder(self._encoder(each)) for each in parts]).repeat(1, 2)


def load_runner(
    context: LoadContext, *, max_positions: int | None = None, **how: Unpack[RunnerOptions]
) -> VoxCPM2Runner:
    """Load a checkpoint's language models and their runner; see `runner_of`.

    ``max_positions`` is by default that of training. Raises ModelLoadError.
    """
    config = load_config(context.checkpoint)
    max_positions = max_positions or config.max_positions
    part = model_part(context.checkpoint, config)
    opened = open_weights(part, **weights_for(context, "language model"))
    with torch.inference_mode(), opened as weights:
        builder, slots = NetworkBuilder(weights, context.is_deterministic), context.max_slots
        model = VoxCPM2Model(builder, config, num_slots=slots, max_positions=max_positions)
    return runner_of(context, model, max_positions, **how)
