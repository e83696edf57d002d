"""The manifest for several hosts: valid as far as can be told without a cluster, and closed."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.config import Settings
from antiphon.fabric.cluster.ray_plan import OUTLIVE_HEAD
from antiphon.families.registry import family
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


def the(kind: str, name: str = "") -> dict[str, Any]:
    found: dict[str, Any]
    [found] = [
        each
        for each in DOCUMENTS
        if each["kind"] == kind and name in ("", each["metadata"]["name"])
    ]
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
    [port] = the("Service", "antiphon")["spec"]["ports"]
    assert port["targetPort"] == "http"
    labels = groups()["front-ends"]["template"]["metadata"]["labels"]
    assert the("Service", "antiphon")["spec"]["selector"].items() <= labels.items()
    assert all(
        policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        for template in (*(each["template"] for each in groups().values()), redis())
    )


def test_pods_are_started_for_replicas_that_find_no_room() -> None:
    spec = the("RayCluster")["spec"]
    assert spec["enableInTreeAutoscaling"] is True
    options = spec["autoscalerOptions"]
    variables = {each["name"]: each.get("value") for each in options["env"]}
    assert variables["RAY_USE_TLS"] == "1"
    assert options["securityContext"]["readOnlyRootFilesystem"] is True
    volumes = {each["name"] for each in spec["headGroupSpec"]["template"]["spec"]["volumes"]}
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert {each["name"] for each in options["volumeMounts"]} <= volumes
    assert token in {each["mountPath"] for each in options["volumeMounts"]}
    for _, _, container in containers():
        assert token not in {each["mountPath"] for each in container["volumeMounts"]}
    for group in groups().values():
        assert group.get("minReplicas", 0) <= group.get("replicas", 0)


def redis() -> dict[str, Any]:
    template: dict[str, Any] = the("StatefulSet", "antiphon-redis")["spec"]["template"]
    return template


def test_the_head_may_be_lost() -> None:
    """Its state is in Redis, on a disk, and Ray's processes wait for the next head."""
    options = the("RayCluster")["spec"]["gcsFaultToleranceOptions"]
    [port] = the("Service", "antiphon-redis")["spec"]["ports"]
    assert options["redisAddress"] == f"antiphon-redis:{port['port']}"
    [container] = redis()["spec"]["containers"]
    [password] = container["env"]
    assert password["valueFrom"] == options["redisPassword"]["valueFrom"]
    assert "--requirepass" in container["command"][-1]
    assert "--appendonly yes" in container["command"][-1]
    [claim] = the("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] in {each["name"] for each in container["volumeMounts"]}
    selector = the("Service", "antiphon-redis")["spec"]["selector"]
    assert selector == redis()["metadata"]["labels"]
    assert selector == the("StatefulSet")["spec"]["selector"]["matchLabels"]
    for _, pod, container in containers():
        if container not in pod["initContainers"]:
            variables = {each["name"]: each.get("value") for each in container["env"]}
            assert variables.items() >= OUTLIVE_HEAD.items()


def test_pods_run_as_nobody_with_nothing_to_write_but_volumes() -> None:
    pods = [(pod, container) for _, pod, container in containers()]
    stateful = redis()["spec"]
    stateful["volumes"] = [
        each["metadata"] for each in the("StatefulSet")["spec"]["volumeClaimTemplates"]
    ]
    for pod, container in (*pods, *((stateful, each) for each in stateful["containers"])):
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
