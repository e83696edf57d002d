"""Loading of the models of one server."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack

from antiphon.config import ServerSettings, Settings
from antiphon.contracts.chat import CHAT_VOICE
from antiphon.contracts.family import Family, Ref
from antiphon.contracts.types import LoadProgress
from antiphon.errors import ModelLoadError, SettingsError
from antiphon.fabric.choice import open_fabric
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.pool import ModelPool
from antiphon.families.registry import resolve
from antiphon.pipeline.chat.omni_talker import ChatVoiceModel
from antiphon.pipeline.chat.service import CHAT, ChatModel
from antiphon.pipeline.pictures.service import IMAGE, VIDEO, ImageModel, VideoModel
from antiphon.pipeline.runtime import LoadedTask, load_tasks
from antiphon.pipeline.speech.model import SPEECH, SpeechModel
from antiphon.placement.settings_placement import ServerPlacement
from antiphon.stages.base import StageHandle
from antiphon.telemetry.stage_status import EngineStats

STAGE_BUILDER = Ref("antiphon.stages.build:build_stage")
"""Makes stages, in this process or in another."""

TASK_CLASSES: Mapping[str, tuple[str, type[LoadedTask], str]] = {
    SPEECH: ("audio", SpeechModel, "speech: POST /v1/audio/speech"),
    CHAT: ("text", ChatModel, "chats: POST /v1/chat/completions"),
    CHAT_VOICE: ("audio", ChatVoiceModel, "answers with its own voice: POST /v1/chat/completions"),
    IMAGE: ("image", ImageModel, "images: POST /v1/images/generations"),
    VIDEO: ("video", VideoModel, "videos: POST /v1/videos"),
}
"""Of each task that is served its modality in ``server.output_modalities``, its class, and what it
does, for people."""


class ServedModels:
    """The models of a server.

    Attributes:
        speech: those that speak, by served name; the default one is first.
    """

    def __init__(self, tasks: Iterable[LoadedTask]) -> None:
        """Sort tasks, those of one model one after the other."""
        self.tasks = tuple(tasks)
        self.speech = {each.name: each for each in self.tasks if isinstance(each, SpeechModel)}
        self.chats = {each.name: each for each in self.tasks if isinstance(each, ChatModel)}
        voices = (each for each in self.tasks if isinstance(each, ChatVoiceModel))
        self.chat_voices = {each.name: each for each in voices}
        self.images = {each.name: each for each in self.tasks if isinstance(each, ImageModel)}
        self.videos = {each.name: each for each in self.tasks if isinstance(each, VideoModel)}

    def by_name(self) -> dict[str, list[LoadedTask]]:
        found: dict[str, list[LoadedTask]] = {}
        for each in self.tasks:
            found.setdefault(each.name, []).append(each)
        return found

    def others(self, task_name: str) -> dict[str, str]:
        """Return what the models do that do not serve a task, by their names."""
        serving = {each.name for each in self.tasks if each.task_name == task_name}
        return {name: does for name, does in self.does().items() if name not in serving}

    def does(self) -> dict[str, str]:
        return {
            name: "; ".join(TASK_CLASSES[each.task_name][2] for each in tasks)
            for name, tasks in self.by_name().items()
        }

    def engine_stats(self) -> Iterator[tuple[str, str, EngineStats]]:
        """Yield model, stage and latest statistics of each loaded stage that counts.

        Of stages of one model that have one name, those of the second task and on have their task's
        name before it.
        """
        handles: set[StageHandle] = set()
        names: set[tuple[str, str]] = set()
        for task in self.tasks:
            for handle, stage, stats in task.engine_stats():
                if handle in handles:
                    continue
                handles.add(handle)
                if (task.name, stage) in names:
                    stage = f"{task.task_name}.{stage}"
                names.add((task.name, stage))
                yield task.name, stage, stats


async def load_models(
    settings: Settings,
    progress: LoadProgress | None,
    stack: AsyncExitStack,
    cluster: ClusterClient | None = None,
) -> ServedModels:
    """Load the served models, the default one first; ``stack`` closes them.

    Of a model that is not loaded at the start, only what reads requests is in memory.

    Args:
        progress: called, in other threads, with the progress of loading.
        cluster: Cluster of the stages, shared with other front ends; ``None``: see `open_fabric`.

    Raises:
        ModelLoadError: one cannot be served, or makes nothing of what is to be served.
        SettingsError: two have the same name, or the placement does not fit them.
    """
    fabric = await open_fabric(settings, STAGE_BUILDER, stack, cluster=cluster, progress=progress)
    pool = ModelPool(fabric, settings.models)
    placement = await asyncio.to_thread(ServerPlacement.of, settings)
    families: dict[str, Family] = {}
    loaded: list[LoadedTask] = []
    for source in settings.served():
        tasks = await load_tasks(
            source,
            served_tasks((await asyncio.to_thread(resolve, source.source))[0], settings.server),
            progress=progress,
            pool=pool,
            placement=placement.of_model(source),
            diffusion=settings.diffusion,
        )
        first = next(iter(tasks.values()))
        stack.push_async_callback(first.close)
        if first.name in families:
            message = f"two models are called '{first.name}'. Name one: NAME=SOURCE."
            raise SettingsError(f"models.more: {message}")
        families[first.name] = first.family
        loaded += tasks.values()
    placement.check_names(families)
    if not settings.models.lazy:
        await pool.preload()
    if settings.models.idle_s:
        sweeping = asyncio.create_task(pool.sweep(), name="sweep models")
        stack.callback(sweeping.cancel)
    return ServedModels(loaded)


async def load_all_tasks(
    settings: Settings, progress: LoadProgress | None = None, without: Collection[str] = ()
) -> ServedModels:
    """Load all tasks of one model into this process; raises ModelLoadError."""
    family, _ = await asyncio.to_thread(resolve, settings.model.source)
    classes = served_tasks(family, settings.server)
    tasks = await load_tasks(
        settings.model,
        {name: each for name, each in classes.items() if name not in without},
        progress=progress,
        diffusion=settings.diffusion,
    )
    return ServedModels(tasks.values())


def served_tasks(family: Family, server: ServerSettings) -> dict[str, type[LoadedTask]]:
    """Return the tasks of a family to be served, with their classes; raises ModelLoadError."""
    wanted = server.output_modalities
    chosen = {
        name: loaded
        for name, (modality, loaded, _) in TASK_CLASSES.items()
        if name in family.tasks and (not wanted or modality in wanted)
    }
    if CHAT not in chosen:
        chosen.pop(CHAT_VOICE, None)  # it speaks the answers of the chat task
    if not chosen:
        made = [TASK_CLASSES[name][0] for name in family.tasks if name in TASK_CLASSES]
        raise ModelLoadError(
            f"'{family.name}' makes {', '.join(made) or 'nothing'}, and {', '.join(wanted)} is"
            " wanted (server.output_modalities)."
        )
    return chosen
