"""What deploys the server is well formed, and names only what there is."""

import json
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.config import Settings
from antiphon.config.sources import ENVIRONMENT_PREFIX
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.process_state import ProcessState, ProcessStateCollector

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "antiphon"
DOCKERFILES = sorted(DEPLOY.glob("Dockerfile*"))
SERVICE = DEPLOY / "antiphon.service"
MAX_EXPOSURE = 40  # tenths of the scale of `systemd-analyze security`: 96 without any protection
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
HANGS_AT_MOST_S = 8
INSTRUCTIONS = (
    *("ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL"),
    *("HEALTHCHECK", "ENTRYPOINT"),
)
VARIABLES = {
    f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()
    for section, field in Settings.model_fields.items()
    for name in type(field.default).model_fields
}


def name_of(path: Path) -> str:
    return path.name


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions, continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line]


def metric_names() -> set[str]:
    """Return all names under which samples of our metrics may be found."""
    return {
        name + suffix
        for family in Metrics().registry.collect()
        for name in (family.name,)
        for suffix in {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(
            family.type, ("",)
        )
    }


@pytest.mark.parametrize("path", DOCKERFILES, ids=name_of)
def test_images_are_built_from_what_there_is_and_run_as_nobody(path: Path) -> None:
    found = instructions(path)
    assert {name for name, _ in found} <= set(INSTRUCTIONS)
    [(_, base), *_] = found
    image, _, default = base.partition("=")
    assert re.search(r":[\d.]+[\w.-]*$", default), "a version, until somebody gives a digest"
    stages = [rest for name, rest in found if name == "FROM"]
    assert stages == [f"${{{image}}} AS build", f"${{{image}}}"], "what builds is not shipped"
    for name, rest in found:
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = shlex.split(rest)
            assert all((ROOT / source).exists() for source in sources), rest
        if name in ("ENTRYPOINT", "VOLUME"):
            assert json.loads(rest)
    last = found[max(i for i, (name, _) in enumerate(found) if name == "FROM") :]
    users = [rest for name, rest in last if name == "USER"]
    assert users == ["10001:10001"]
    assert ("ENTRYPOINT", '["antiphon", "serve"]') in last
    assert any(name == "HEALTHCHECK" and "/health" in rest for name, rest in last)


@pytest.mark.parametrize(
    "path",
    [*DOCKERFILES, SERVICE, DEPLOY / "compose.yaml", CHART / "values.yaml", *TEMPLATES],
    ids=name_of,
)
def test_every_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(rf"\b{ENVIRONMENT_PREFIX}\w+", path.read_text()))
    assert named <= VARIABLES


def test_the_image_gets_no_more_than_the_package_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    wanted = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source
        for path in DOCKERFILES
        for name, rest in instructions(path)
        if name == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    }
    assert copied == wanted


def test_compose_gives_its_services_nothing_to_write_but_volumes() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert service["read_only"] is True
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert {mount.split(":")[0] for mount in service["volumes"]} <= set(compose["volumes"])
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_of_systemd_is_valid_and_protects_the_machine(tmp_path: Path) -> None:
    unit = tmp_path / SERVICE.name
    program = shutil.which("true")
    assert program is not None
    unit.write_text(SERVICE.read_text().replace("/opt/antiphon/bin/antiphon", program))
    for command in (["verify"], ["security", "--offline=yes", f"--threshold={MAX_EXPOSURE}"]):
        done = subprocess.run(
            ["systemd-analyze", *command, unit], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Unknown" not in done.stderr


def test_the_unit_leaves_a_server_the_time_to_drain() -> None:
    """One SIGTERM, to the main process: a second one cuts streams; then longer than the grace."""
    unit = dict(re.findall(r"^(\w+)=(.*)$", SERVICE.read_text(), re.MULTILINE))
    assert unit["KillMode"] == "mixed"
    assert float(unit["TimeoutStopSec"]) > Settings().limits.grace_s + HANGS_AT_MOST_S


def test_the_chart_uses_values_that_there_are_and_uses_them_all() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    used = {
        name
        for path in [*TEMPLATES, CHART / "templates" / "_helpers.tpl"]
        for name in re.findall(r"\.Values\.([\w.]+)", path.read_text())
    }
    for name in used:
        at: Any = values
        for part in name.split("."):
            assert part in at, f"there is no value {name}"
            at = at[part]
    assert {name.split(".")[0] for name in used} == set(values)


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_templates_are_yaml_around_their_actions(path: Path) -> None:
    text = path.read_text()
    assert text.count("{{") == text.count("}}")
    opened = re.findall(r"\{\{-? *(?:if|with|range|define)\b", text)
    assert len(opened) == len(re.findall(r"\{\{-? *end *-?\}\}", text))
    plain = re.sub(r"^ *\{\{.*\}\} *\n", "", text, flags=re.MULTILINE)
    document = yaml.safe_load(re.sub(r'"?\{\{.*?\}\}[^\n\s,}\]]*"?', "x", plain))
    assert {"apiVersion", "kind", "metadata"} <= document.keys()


def test_a_pod_is_told_to_stop_and_given_the_time_to() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    grace_s = float(values["env"]["ANTIPHON_LIMITS_GRACE_S"])
    assert values["terminationGracePeriodSeconds"] > values["preStopSeconds"] + grace_s
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    assert re.search(r"readinessProbe:\n +httpGet: \{ path: /ready", deployment)
    assert re.search(r"livenessProbe:\n +httpGet: \{ path: /health", deployment)
    assert "readOnlyRootFilesystem: true" in deployment
    assert "runAsNonRoot: true" in deployment


def gib(quantity: str) -> float:
    assert quantity.endswith("Gi")
    return float(quantity.removesuffix("Gi"))


def test_volumes_of_a_node_have_sizes_that_quotas_stay_below() -> None:
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    manifest = (DEPLOY / "kuberay" / "antiphon.yaml").read_text()
    volumes = re.findall(r"emptyDir:.*", deployment + manifest)
    assert len(volumes) > 8
    assert all("sizeLimit" in each or "medium: Memory" in each for each in volumes)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    quotas = [values["env"][f"ANTIPHON_{name}_MAX_GIB"] for name in ("MEDIA", "JOBS")]
    assert sum(map(float, quotas)) < gib(values["data"]["size"])


@pytest.mark.parametrize(
    "path", ["helm/antiphon/templates/deployment.yaml", "kuberay/antiphon.yaml"]
)
def test_a_pod_that_answers_late_once_stays_in_the_service(path: str) -> None:
    probe = re.search(
        r" readinessProbe:\n +httpGet:.*\n((?: +\w+: \d+\n)+)", (DEPLOY / path).read_text()
    )
    assert probe is not None
    numbers = yaml.safe_load(textwrap.dedent(probe[1]))
    assert numbers["timeoutSeconds"] > 1
    assert numbers["failureThreshold"] > 2


def test_pods_share_no_data_so_there_is_one_unless_the_values_allow_more() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["replicaCount"] == 1
    assert not values["data"]["perPod"]
    assert not values["autoscaling"]["enabled"]
    begin = (CHART / "templates" / "deployment.yaml").read_text().partition("apiVersion")[0]
    assert re.search(r"gt \$pods 1\) \.Values\.data\.persistent \}\}\n\{\{- fail ", begin)
    assert re.search(r"gt \$pods 1\) \(not \.Values\.data\.perPod\) \}\}\n\{\{- fail ", begin)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("replicaCount=2", "2 pods share no voices"),
        ("autoscaling.enabled=true", "8 pods share no voices"),
        ("replicaCount=2,data.perPod=true,data.persistent=true", "cannot share the volume"),
        ("replicaCount=2,data.perPod=true", None),
    ],
)
def test_the_chart_refuses_pods_that_miss_each_others_data(values: str, words: str | None) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    command = ["helm", "template", "test", str(CHART), "--set", f"allowNoKey=true,{values}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (words is None)
    assert (words or "") in done.stderr


def test_others_reach_the_port_of_the_server_only() -> None:
    policy = (CHART / "templates" / "networkpolicy.yaml").read_text()
    assert re.search(r"ingress:\n    - ports:\n        - port: http\n", policy)
    assert yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]["enabled"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--set", "allowNoKey=true"],
        [
            "--set",
            "autoscaling.enabled=true,serviceMonitor.enabled=true,data.perPod=true,allowNoKey=true",
        ],
        ["--set", "apiKeysSecret=keys,podDisruptionBudget.enabled=false,data.persistent=true"],
    ],
    ids=["default", "all", "keys"],
)
def test_the_chart_renders(flags: list[str]) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    done = subprocess.run(
        ["helm", "template", "test", str(CHART), *flags], capture_output=True, text=True, check=True
    )
    assert all(document["kind"] for document in yaml.safe_load_all(done.stdout) if document)


def test_nothing_serves_a_network_without_a_key_by_oversight() -> None:
    """What listens on every address asks for keys, or says why it does not."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert service["environment"]["ANTIPHON_SERVER_API_KEYS"] is None, "the shell's, if any"
        assert "ANTIPHON_SERVER_ALLOW_NO_KEY" in service["environment"]
    for path in DOCKERFILES:
        assert "--allow-no-key" in path.read_text()
        assert not any("ALLOW_NO_KEY" in rest for _, rest in instructions(path))
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert not values["allowNoKey"]
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    assert re.search(
        r"else if \.Values\.allowNoKey(?s:.)*?\{\{- else \}\}\s*\{\{- fail ", deployment
    )


def test_the_dashboard_and_the_autoscaler_look_at_metrics_that_there_are() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "antiphon.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [each["query"] for each in dashboard["templating"]["list"]]
    expressions += [(CHART / "templates" / "hpa.yaml").read_text()]
    named = {name for each in expressions for name in re.findall(r"\bantiphon_\w+", each)}
    assert len(named) > 10
    assert named <= metric_names()


def test_the_documented_metrics_are_those_that_there_are() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    told = set(re.findall(r"^\| `((?:antiphon_|vllm(?:_omni)?:)\w+)` \|", page, re.MULTILINE))
    processes = ProcessStateCollector([ProcessState("parent", 1, is_up=True, num_restarts=0)])
    families = (*Metrics().registry.collect(), *processes.collect())
    names = {family.name for family in families}
    known = {name for name in names if not name.startswith("process_")}  # the client library's
    assert told == known
