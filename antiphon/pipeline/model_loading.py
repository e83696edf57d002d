"""The models of one server, loaded as its settings say."""

import asyncio
from contextlib import AsyncExitStack

from antiphon.config import Settings
from antiphon.errors import SettingsError
from antiphon.fabric.model_pool import ModelPool
from antiphon.pipeline.runtime import LoadedModel
from antiphon.types import LoadProgress


async def load_models(
    settings: Settings, progress: LoadProgress | None, stack: AsyncExitStack
) -> dict[str, LoadedModel]:
    """Load the served models, the default one first; ``stack`` closes them.

    Of a model that is not loaded at the start, only what reads requests is in memory.

    Raises:
        ModelLoadError: one cannot be served.
        SettingsError: two have the same name.
    """
    memory = _memory(settings)
    models: dict[str, LoadedModel] = {}
    for source in settings.served():
        model = await LoadedModel.load(source, progress=progress, memory=memory)
        stack.push_async_callback(model.close)
        if model.name in models:
            raise SettingsError(
                f"models.more: two models are called '{model.name}'. Name one: NAME=SOURCE."
            )
        models[model.name] = model
    if memory is not None:
        if not settings.models.lazy:
            await memory.preload()
        sweeping = asyncio.create_task(memory.sweep(), name="sweep models")
        stack.callback(sweeping.cancel)
    return models


async def warm_up(models: dict[str, LoadedModel], settings: Settings) -> None:
    """Warm the models that are loaded at the start."""
    if settings.models.lazy:
        return
    for model in tuple(models.values())[: settings.models.max_loaded or None]:
        await model.warm_up()


def _memory(settings: Settings) -> ModelPool | None:
    """Return what the models share, ``None`` for a single one that stays."""
    models = settings.models
    if not (models.more or models.lazy or models.idle_s):
        return None
    return ModelPool(max_loaded=models.max_loaded, idle_s=models.idle_s, wait_s=models.wait_s)
