"""The models of one server, loaded as its settings say."""

import asyncio
from contextlib import AsyncExitStack

from antiphon.config import Settings
from antiphon.errors import SettingsError
from antiphon.fabric.base import Fabric
from antiphon.fabric.choice import open_fabric
from antiphon.fabric.cluster import Cluster
from antiphon.fabric.model_pool import ModelPool
from antiphon.models.spec import Ref
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.placement.settings_placement import ServerPlacement
from antiphon.types import LoadProgress

STAGE_BUILDER = Ref("antiphon.pipeline.stage:build_stage")
"""Makes stages, in this process or in another."""


async def load_models(
    settings: Settings,
    progress: LoadProgress | None,
    stack: AsyncExitStack,
    cluster: Cluster | None = None,
) -> dict[str, SpeechModel]:
    """Load the served models, the default one first; ``stack`` closes them.

    Of a model that is not loaded at the start, only what reads requests is in memory.

    Args:
        settings: of the server.
        progress: called, in other threads, with the progress of loading.
        stack: of the server.
        cluster: that runs the stages, shared with other front ends; ``None``: see `open_fabric`.

    Raises:
        ModelLoadError: one cannot be served.
        SettingsError: two have the same name, or the placement does not fit them.
    """
    fabric = await open_fabric(settings, STAGE_BUILDER, stack, cluster=cluster, progress=progress)
    pool = _pool(settings, fabric)
    placement = await asyncio.to_thread(ServerPlacement.of, settings)
    models: dict[str, SpeechModel] = {}
    for source in settings.served():
        model = await SpeechModel.load(
            source, progress=progress, pool=pool, placement=placement.of_model(source)
        )
        stack.push_async_callback(model.close)
        if model.name in models:
            raise SettingsError(
                f"models.more: two models are called '{model.name}'. Name one: NAME=SOURCE."
            )
        models[model.name] = model
    placement.check_names({name: model.family for name, model in models.items()})
    if not settings.models.lazy:
        await pool.preload()
    if settings.models.idle_s:
        sweeping = asyncio.create_task(pool.sweep(), name="sweep models")
        stack.callback(sweeping.cancel)
    return models


async def warm_up(models: dict[str, SpeechModel]) -> None:
    """Warm the models that are loaded at the start."""
    for model in models.values():
        if model.is_loaded:
            await model.warm_up()


def _pool(settings: Settings, fabric: Fabric) -> ModelPool:
    """Return the pool that loads all models into a fabric."""
    models = settings.models
    return ModelPool(
        fabric,
        max_loaded=models.max_loaded,
        max_bytes=int(models.max_gib * 2**30),
        idle_s=models.idle_s,
        wait_s=models.wait_s,
    )
