"""The manifest for several hosts: valid as far as can be told without a cluster, and closed."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.config import Settings
from antiphon.models.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.settings_placement import ServerPlacement

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy" / "kuberay" / "antiphon.yaml"
CHART = ROOT / "deploy" / "helm" / "antiphon"
DOCUMENTS = [each for each in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if each]
SETTINGS = {
    f"ANTIPHON_{section}_{name}".upper()
    for section, field in Settings.model_fields.items()
    for name in type(field.default).model_fields
}


def the(kind: str) -> dict[str, Any]:
    found: dict[str, Any]
    [found] = [each for each in DOCUMENTS if each["kind"] == kind]
    return found


def groups() -> dict[str, dict[str, Any]]:
    spec = the("RayCluster")["spec"]
    workers = {each["groupName"]: each for each in spec["workerGroupSpecs"]}
    return {"head": spec["headGroupSpec"], **workers}


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, group in groups().items():
        pod = group["template"]["spec"]
        for container in (*pod["initContainers"], *pod["containers"]):
            yield name, pod, container


def test_the_placement_is_right_and_asks_for_no_more_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "placement.yaml"
    path.write_text(the("ConfigMap")["data"]["placement.yaml"], encoding="utf-8")
    file = read_placement([str(path)])
    assert file.fabric == "ray"
    replicas = file.stages["autoregressive"].replicas
    assert replicas is not None
    assert replicas.max <= groups()["gpus"]["maxReplicas"]
    assert replicas.first <= groups()["gpus"]["replicas"]
    ServerPlacement(file, "ray").check_names({"speech": family("qwen3_tts")})


def test_ray_is_the_version_that_is_installed() -> None:
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert the("RayCluster")["spec"]["rayVersion"] == pinned[1]


def test_every_connection_asks_for_a_token_and_is_encrypted() -> None:
    assert the("RayCluster")["spec"]["authOptions"] == {"mode": "token"}
    for _, pod, container in containers():
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounts["tls"] == "/tls"
        if container in pod["initContainers"]:
            continue
        assert "authority" not in mounts, "the authority's key is for the init container alone"
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["RAY_USE_TLS"] == "1"
        assert variables["RAY_TLS_SERVER_CERT"] == "/tls/cert.pem"
        assert variables["RAY_TLS_SERVER_KEY"] == "/tls/key.pem"
        assert variables["RAY_TLS_CA_CERT"] == "/tls/ca.pem"
        assert variables["ANTIPHON_SERVER_CLUSTER_TLS"] == "/tls"


def test_strangers_reach_the_port_of_http_only() -> None:
    policy = the("NetworkPolicy")["spec"]
    inside, outside = policy["ingress"]
    assert inside["from"] == [{"podSelector": policy["podSelector"]}]
    assert "ports" not in inside
    assert outside == {"ports": [{"port": 8000}]}
    [port] = the("Service")["spec"]["ports"]
    assert port["targetPort"] == "http"
    labels = groups()["front-ends"]["template"]["metadata"]["labels"]
    assert the("Service")["spec"]["selector"].items() <= labels.items()
    assert all(
        policy["podSelector"]["matchLabels"].items()
        <= group["template"]["metadata"]["labels"].items()
        for group in groups().values()
    )


def test_pods_run_as_nobody_with_nothing_to_write_but_volumes() -> None:
    for _, pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} <= volumes


def test_every_variable_of_ours_is_a_setting() -> None:
    named = set(re.findall(r"\bANTIPHON_\w+", MANIFEST.read_text(encoding="utf-8")))
    named |= set(re.findall(r"\bANTIPHON_\w+", (CHART / "values-gpu-host.yaml").read_text()))
    assert named <= SETTINGS


def test_a_front_end_is_told_to_stop_and_given_the_time_to() -> None:
    group = groups()["front-ends"]
    pod = group["template"]["spec"]
    [container] = pod["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    [_, pause_s] = container["lifecycle"]["preStop"]["exec"]["command"]
    grace_s = int(variables["ANTIPHON_LIMITS_GRACE_S"])
    assert pod["terminationGracePeriodSeconds"] > int(pause_s) + grace_s
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert group["template"]["metadata"]["annotations"] == {
        "ray.io/overwrite-container-cmd": "true"
    }
    assert "exec antiphon serve" in container["args"][0], "signals reach the server"


@pytest.mark.parametrize("name", sorted(path.name for path in CHART.glob("values-*.yaml")))
def test_further_values_of_the_chart_are_values_that_it_has(name: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    further = yaml.safe_load((CHART / name).read_text(encoding="utf-8"))
    assert further.keys() <= values.keys()
    placements = [value for flag, value in pairwise(further["args"]) if flag == "--placement"]
    assert read_placement(placements).fabric == "process"
