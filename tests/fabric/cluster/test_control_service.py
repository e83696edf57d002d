"""An operator reaches the cluster of a server of this host, and no other one."""

import asyncio
import stat
import tempfile
from pathlib import Path

import pytest

from antiphon.errors import InvalidRequestError, ReplicaLostError
from antiphon.fabric.cluster.base import StageSummary, unknown_stage
from antiphon.fabric.cluster.control_service import ControlClient, ControlServer
from antiphon.fabric.cluster.runtime_folder import runtime_folder
from antiphon.fabric.wire.sockets import connect

SUMMARY = StageSummary(
    id="stage-0", name="stage", num_wanted=1, num_front_ends=1, replicas=(), num_loading=1
)


class Pretended:
    def __init__(self) -> None:
        self.scaled: list[int] = []

    async def stages(self) -> tuple[StageSummary, ...]:
        return (SUMMARY,)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        if stage_id != SUMMARY.id:
            raise unknown_stage(stage_id)
        self.scaled.append(num_replicas)


def test_a_server_is_found_and_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        assert await ControlClient.connect_all() == ()
        cluster = Pretended()
        with runtime_folder() as folder:
            server = ControlServer(cluster)
            await server.serve(folder)
            with pytest.raises(ReplicaLostError):
                await connect(f"unix:{folder}/control.sock", "")
            assert stat.S_IMODE((folder / "control.token").stat().st_mode) == 0o600
            [client] = await ControlClient.connect_all()
            assert await client.stages() == (SUMMARY,)
            await client.scale("stage-0", 3)
            with pytest.raises(InvalidRequestError, match="no stage 'other'"):
                await client.scale("other", 3)
            client.close()
            await server.close()
            assert await ControlClient.connect_all() == ()
        assert cluster.scaled == [3]

    asyncio.run(main())


def test_a_folder_that_others_can_enter_is_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        with runtime_folder() as folder:
            server = ControlServer(Pretended())
            await server.serve(folder)
            folder.chmod(0o755)
            assert await ControlClient.connect_all() == ()
            await server.close()

    asyncio.run(main())
