"""Applies `DiffusionSettings` to the networks of a stage: caches, memory, compilation."""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from antiphon.config.diffusion import DiffusionSettings
from antiphon.diffusion.rank_mesh import RankMesh
from antiphon.errors import SettingsError

logger = logging.getLogger(__name__)

_CPU = torch.device("cpu")
_VAE, _DENOISER = "vae", "transformer"  # how names of components in diffusers' layout begin
_TAYLOR = ("enable_taylorseer", "taylorseer_order")
_FIRST_BLOCKS, _LAST_BLOCKS = "Fn_compute_blocks", "Bn_compute_blocks"  # computed in every step
_RELATIVE_L1 = "rel_l1_thresh"
_DEFAULT_RELATIVE_L1 = 0.2


class NetworkAccelerator:
    """Acceleration of one stage's networks, as the settings define it.

    Caches keep what a step has computed for the next one, so a denoiser with a cache works on one
    request at a time: `begin` forgets what was kept for the request before.
    """

    def __init__(self, settings: DiffusionSettings, device: torch.device) -> None:
        self._settings = settings
        self._device = device
        self._networks: dict[str, Any] = {}
        self._turns = _turns_of(device) if settings.enable_cpu_offload else None
        self._mesh: RankMesh | None = None

    def add(self, name: str, network: nn.Module) -> None:
        """Place a network that lies in main memory, and prepare it; raises SettingsError."""
        self._networks[name] = network
        if name.startswith(_VAE):
            self._prepare_vae(network)
        is_denoiser = name.startswith(_DENOISER)
        if is_denoiser and self._settings.enable_layerwise_offload:
            self._offload_layers(network)
        elif self._turns is None:
            network.to(self._device)
        if is_denoiser:
            self._mesh = self._mesh or RankMesh.of(self._settings, self._device)
            if self._mesh is not None:
                self._mesh.share_sequence(network)
            self._cache(network)
            if self._device.type == "cuda" and not self._settings.enforce_eager:
                self._compile(network)

    def begin(self, num_steps: int, is_guided: Callable[[str], bool]) -> None:
        """Clear the caches for the next request.

        Args:
            is_guided: whether the network of this component runs twice in each step.
        """
        denoisers = [name for name in self._networks if name.startswith(_DENOISER)]
        for name in denoisers:
            network = self._networks[name]
            if self._settings.cache_backend == "cache_dit":
                _refresh_cache_dit(
                    network,
                    self._settings.cache_config,
                    # One expert of several takes a part of the steps only.
                    num_steps=num_steps if len(denoisers) == 1 else None,
                    is_guided=is_guided(name),
                )
            elif self._settings.cache_backend == "tea_cache":
                network._reset_stateful_cache()

    def both(
        self, near: Callable[[], Tensor], apart: Callable[[], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the network's outputs with and without the text; see `RankMesh.both`."""
        return (near(), apart()) if self._mesh is None else self._mesh.both(near, apart)

    def end(self) -> None:
        """Log the steps that caches skipped for a request, if the settings enable it."""
        if not self._settings.enable_cache_dit_summary:
            return
        for name, network in self._networks.items():
            if name.startswith(_DENOISER):
                for skipped in _skipped(network):
                    logger.info("%s: cache_dit skipped %s", name, skipped)

    @contextmanager
    def resident(self) -> Generator[None, None, None]:
        """Have the networks on the device, alone there of all that are offloaded by component."""
        if self._turns is None:
            yield
            return
        with self._turns.lock:
            if self._turns.owner is not self:
                if self._turns.owner is not None:
                    self._turns.owner._move(_CPU)
                self._move(self._device)
                self._turns.owner = self
            yield

    def close(self) -> None:
        if self._turns is not None:
            with self._turns.lock:
                if self._turns.owner is self:
                    self._turns.owner = None
        self._networks.clear()

    def _move(self, device: torch.device) -> None:
        for network in self._networks.values():
            network.to(device)

    def _prepare_vae(self, vae: Any) -> None:
        if self._settings.vae_use_slicing:
            vae.enable_slicing()
        if self._settings.vae_use_tiling:
            vae.enable_tiling()

    def _offload_layers(self, network: Any) -> None:
        num_layers = self._settings.layerwise_num_gpu_layers
        is_streamed = self._device.type == "cuda" and num_layers == 1  # which is its condition
        network.enable_group_offload(
            onload_device=self._device,
            offload_device=_CPU,
            offload_type="block_level",
            num_blocks_per_group=num_layers,
            use_stream=is_streamed,
            non_blocking=is_streamed,
        )

    def _cache(self, network: Any) -> None:
        config = self._settings.cache_config
        if self._settings.cache_backend == "cache_dit":
            import cache_dit

            _check_names(config, _cache_dit_names())
            cache_dit.enable_cache(network, **_cache_dit_configs(network, config))
        elif self._settings.cache_backend == "tea_cache":
            from diffusers import FirstBlockCacheConfig

            _check_names(config, (_RELATIVE_L1,))
            threshold = config.get(_RELATIVE_L1, _DEFAULT_RELATIVE_L1)
            network.enable_cache(FirstBlockCacheConfig(threshold=threshold))

    def _compile(self, network: Any) -> None:
        """Compile its blocks for any shape; decisions of caches and of offloading lie between."""
        is_whole = self._settings.cache_backend is None
        is_whole = is_whole and not self._settings.enable_layerwise_offload
        network.compile_repeated_blocks(fullgraph=is_whole, dynamic=True)


class _Turns:
    """Whose networks are on a device, of all that are offloaded by component."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.owner: NetworkAccelerator | None = None


_all_turns: dict[torch.device, _Turns] = {}


def _turns_of(device: torch.device) -> _Turns:
    return _all_turns.setdefault(device, _Turns())


def _cache_dit_names() -> tuple[str, ...]:
    from cache_dit import DBCacheConfig

    ours = ("num_inference_steps", "enable_separate_cfg", "cache_type")
    names = (each.name for each in fields(DBCacheConfig) if each.name not in ours)
    return (*names, *_TAYLOR)


def _cache_dit_configs(network: nn.Module, config: dict[str, Any], **ours: Any) -> dict[str, Any]:
    """Return the configuration arguments of cache_dit's functions; raises SettingsError."""
    from cache_dit import DBCacheConfig, TaylorSeerCalibratorConfig

    given = {name: value for name, value in config.items() if name not in _TAYLOR}
    numbers = [len(each) for each in network.children() if isinstance(each, nn.ModuleList)]
    least, most = min(numbers), max(numbers)
    num_last = given.get(_LAST_BLOCKS, 0)
    if num_last not in range(most):
        raise SettingsError(
            f"--cache-config: '{_LAST_BLOCKS}' is {num_last!r}; this model allows 0 to {most - 1}."
        )
    if _FIRST_BLOCKS not in given:
        default = min(DBCacheConfig().Fn_compute_blocks, least)
        skips = default + num_last < most
        given[_FIRST_BLOCKS] = default if skips else max(1, min(least, (most - num_last) // 2))
    if given[_FIRST_BLOCKS] not in range(1, least + 1):
        raise SettingsError(
            f"--cache-config: '{_FIRST_BLOCKS}' is {given[_FIRST_BLOCKS]!r}; this model allows 1 to"
            f" {least}."
        )
    if given[_FIRST_BLOCKS] + num_last >= most:
        raise SettingsError(
            f"--cache-config: '{_FIRST_BLOCKS}' is {given[_FIRST_BLOCKS]} and '{_LAST_BLOCKS}' is"
            f" {num_last}: this model has {most} blocks, so none would be skipped. Their sum must"
            f" be less than {most}."
        )
    configs: dict[str, Any] = {"cache_config": DBCacheConfig(**given, **ours)}
    if config.get("enable_taylorseer"):
        order = config.get("taylorseer_order", 1)
        configs["calibrator_config"] = TaylorSeerCalibratorConfig(taylorseer_order=order)
    return configs


def _refresh_cache_dit(
    network: Any, config: dict[str, Any], *, num_steps: int | None, is_guided: bool
) -> None:
    import cache_dit

    configs = _cache_dit_configs(
        network, config, num_inference_steps=num_steps, enable_separate_cfg=is_guided
    )
    cache_dit.refresh_context(network, **configs)


def _skipped(network: nn.Module) -> Iterator[str]:
    """Yield which steps of a request were skipped, for each kind of blocks of a network."""
    import cache_dit
    from cache_dit import BlockAdapter

    kinds = BlockAdapter.find_blocks(network)
    for blocks, stats in zip(kinds, cache_dit.summary(network, logging=False), strict=False):
        options = stats.cache_options["cache_config"]
        num_skipped = len(blocks) - options.Fn_compute_blocks - options.Bn_compute_blocks
        if num_skipped <= 0:
            yield f"none of {len(blocks)} blocks"
            continue
        unguided = (
            f" and, without the prompt, {skipped}" if (skipped := stats.cfg_cached_steps) else ""
        )
        yield f"steps {stats.cached_steps}{unguided} of {num_skipped} of {len(blocks)} blocks"


def _check_names(config: dict[str, Any], known: tuple[str, ...]) -> None:
    unknown = [name for name in config if name not in known]
    if unknown:
        raise SettingsError(f"--cache-config: unknown '{unknown[0]}'. Known: {', '.join(known)}.")


def register_block(kind: type[nn.Module], *, is_text_first: bool) -> None:
    """Register a kind of block with diffusers' caches, which need the order of its outputs.

    Args:
        is_text_first: whether it returns the text's hidden states before those of the image.
    """
    from diffusers.hooks._helpers import TransformerBlockMetadata, TransformerBlockRegistry

    metadata = TransformerBlockMetadata(
        return_hidden_states_index=int(is_text_first),
        return_encoder_hidden_states_index=int(not is_text_first),
    )
    TransformerBlockRegistry.register(kind, metadata)
