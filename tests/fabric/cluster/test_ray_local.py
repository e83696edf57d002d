"""A Ray cluster that a server begins for itself is reached from its own host only."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

pytestmark = pytest.mark.slow  # a Ray cluster takes ten seconds to start

_BEGIN = """
import json, os, ray
from antiphon.fabric.cluster.ray_client import _init, connect_ray
import antiphon.fabric.cluster.ray_client as control

def begin(address, namespace, **options):  # not a cluster that another test has begun
    if address == "auto":
        raise ConnectionError
    _init(address, namespace, **options)

control._init = begin
connect_ray(None, "test")

@ray.remote(num_cpus=0)
def address():
    return ray.util.get_node_ip_address()

import psutil
of_replica = ray.get(address.remote())
pids = {os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))}
listening = {
    each.laddr.ip
    for each in psutil.net_connections("inet")
    if each.status == psutil.CONN_LISTEN and each.pid in pids
}
assert len(pids) > 3
print(json.dumps([of_replica, sorted(listening)]))
ray.shutdown()
"""


def test_it_listens_on_the_loopback_only() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN], env=environment, capture_output=True, text=True, check=True
    )
    of_replica, listening = json.loads(done.stdout.splitlines()[-1])
    assert of_replica == "127.0.0.1"
    assert listening
    assert {*listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
