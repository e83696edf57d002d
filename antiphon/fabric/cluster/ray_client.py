"""Client of the controller of a cluster on Ray; calls outlive its restarts."""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Self

import ray
from ray._private import ray_constants
from ray.exceptions import AuthenticationError, RayActorError, RayTaskError

from antiphon.config.sources import process_environment
from antiphon.errors import AntiphonError, SettingsError
from antiphon.fabric.cluster.remote import RemoteController

logger = logging.getLogger(__name__)

CONTROLLER = "antiphon-controller"
"""Name of the controller within its namespace."""
_RETRY_S = 0.5
_REACHABLE_S = 10.0
"""Time that a cluster which starts beside the server may take to listen."""


class RayControllerClient(RemoteController):
    """The `Controller` of a cluster on Ray, in a process that is connected to Ray.

    Attributes:
        address: address of the Ray cluster; ``None``: this process has begun it.
    """

    def __init__(self, find: Callable[[], Any], address: str | None) -> None:
        """Use the controller that ``find`` returns; it blocks, and is called again if that one is
        dead."""
        super().__init__(self._call_actor)
        self.address = address
        self.actor = find()
        self._find = find

    @classmethod
    async def connect(cls, address: str | None, namespace: str) -> Self:
        """Connect to a running cluster; raises SettingsError.

        Args:
            address: address of the Ray cluster; ``None``: the one that Ray finds.
        """

        def find() -> Any:
            try:
                return ray.get_actor(CONTROLLER, namespace=namespace)
            except ValueError as error:
                raise SettingsError(
                    f"No server of the Ray namespace '{namespace}' has begun to host stages."
                ) from error

        await asyncio.to_thread(connect_ray, address or "auto", namespace)
        return await asyncio.to_thread(cls, find, address)

    async def _call_actor(self, method: str, *arguments: Any) -> Any:
        """Call the controller, again if it is restarted meanwhile: all of its calls are idempotent.

        Raises:
            AntiphonError: error that the controller has raised.
        """
        is_away = False
        while True:
            try:
                return await getattr(self.actor, method).remote(*arguments)
            except RayTaskError as error:
                if isinstance(error.cause, AntiphonError):
                    raise error.cause from None
                raise
            except RayActorError as error:
                if not is_away:
                    logger.warning("The cluster's controller does not answer: %s", error)
                is_away = True
                await asyncio.sleep(_RETRY_S)
                self.actor = await asyncio.to_thread(self._find)


def connect_ray(address: str | None, namespace: str) -> str | None:
    """Connect this process to Ray, unless it is connected; takes seconds; raises SettingsError.

    Returns the address of the cluster; ``None``: this process has begun it, and it ends with it.

    Args:
        address: address of the Ray cluster; ``None``: RAY_ADDRESS, else the cluster of this host,
            else a new one on this host.
    """
    if ray.is_initialized():
        return _connected_address()
    check_reachable(address)
    # It warns that SIGTERM's handler is ours, since this is not the main thread.
    logging.getLogger("ray").setLevel(logging.ERROR)
    is_found = address is not None or "RAY_ADDRESS" in process_environment()
    try:
        with nullcontext() if is_found else suppress(ConnectionError):
            _init(address or "auto", namespace)
        if not ray.is_initialized():  # "auto" fails where Ray remembers a cluster that has ended
            # Ray and the replicas then listen at the loopback address, as Ray does on macOS.
            # It replaces a node's address that is given as 127.0.0.1 by one that others reach.
            ray_constants.ENABLE_RAY_CLUSTER = False
            _init("local", namespace, include_dashboard=False)
            return None
    except (ConnectionError, AuthenticationError) as error:
        raise SettingsError(f"Cannot connect to Ray: {error}") from error
    return _connected_address()


def _connected_address() -> str:
    address: str = ray.get_runtime_context().gcs_address
    return address


def _init(address: str, namespace: str, **options: Any) -> None:
    ray.init(
        address=address,
        namespace=namespace,
        log_to_driver=False,
        logging_level=logging.ERROR,
        **options,
    )


def check_reachable(address: str | None) -> None:
    """Refuse an address at which nothing listens, before Ray tries for long; raises SettingsError.

    Args:
        address: HOST:PORT; anything else is Ray's to understand.
    """
    host, colon, port = (address or "").rpartition(":")
    if not colon or "/" in host or not (port.isascii() and port.isdigit()):
        return
    deadline_s = time.monotonic() + _REACHABLE_S
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHABLE_S).close()
            return
        except (OSError, OverflowError) as error:
            if time.monotonic() > deadline_s:
                raise SettingsError(
                    f"Cannot connect to Ray: nothing answers at {address} ({error})."
                ) from error
        time.sleep(_RETRY_S)


def end_with_raylet() -> None:
    """End the process of an actor soon after its raylet, whose resources it reserves. Ray does so
    only where the process then becomes a child of process 1."""
    raylet = os.getppid()

    def watch() -> None:
        while os.getppid() == raylet:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="raylet watch", daemon=True).start()


def keep_signal_handlers() -> None:
    """Have signals as before Ray was connected: its own handlers print a trace at each SIGTERM.

    Does nothing in other threads than the main one, which has none.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.getsignal(number))
