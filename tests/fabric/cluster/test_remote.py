"""An operator reaches the cluster of a server of this host, and no other one."""

import stat
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.errors import InvalidRequestError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Heartbeat, Hosting, ReplicaAction
from antiphon.fabric.cluster.controller import ClusterController
from antiphon.fabric.cluster.remote import connected_to_servers, served_to_operators
from antiphon.fabric.cluster.runtime_folder import runtime_folder
from antiphon.fabric.cluster.state import ClusterState
from antiphon.fabric.wire.sockets import connect

SPEC = StageSpec("stage", StageKind.GENERATOR, ItemKind.TEXT, ItemKind.AUDIO, Ref("no:thing"))
HOSTING = Hosting((SPEC,), LoadContext(), Placement())


class NoLauncher:
    async def wait_until_reachable(self) -> None:
        """Return at once."""

    def beats(self) -> tuple[Heartbeat, ...]:
        return ()

    async def launch(self, actions: Sequence[ReplicaAction]) -> None:
        """Do nothing."""


@asynccontextmanager
async def controlled() -> AsyncGenerator[ClusterController, None]:
    state = ClusterState(lambda stage_id: stage_id, now_s=time.monotonic())
    controller = ClusterController(state, NoLauncher())
    await controller.host("front end", HOSTING)
    try:
        yield controller
    finally:
        await controller.close()


async def test_a_server_is_found_and_scaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert await connected_to_servers() == ()
    with runtime_folder() as folder:
        async with controlled() as controller, served_to_operators(controller, folder):
            with pytest.raises(ReplicaLostError):
                await connect(f"unix:{folder}/control.sock", "")
            assert stat.S_IMODE((folder / "control.token").stat().st_mode) == 0o600
            [client] = await connected_to_servers()
            assert await client.stages() == await controller.stages()
            await client.scale(HOSTING.id, 3)
            [view] = await client.stages()
            assert view.num_wanted == 3
            with pytest.raises(InvalidRequestError, match="no stage 'other'"):
                await client.scale("other", 3)
            await client.close()
        assert await connected_to_servers() == ()


async def test_a_folder_that_others_can_enter_is_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with runtime_folder() as folder:
        async with controlled() as controller, served_to_operators(controller, folder):
            folder.chmod(0o755)
            assert await connected_to_servers() == ()
