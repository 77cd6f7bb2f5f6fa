"""The Helm chart: what it renders is valid Kubernetes, runs restricted, and has no secret in it."""

import copy
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import kubernetes_validate
import pytest
import yaml
from pydantic import SecretStr

import shoal
from shoal.streams.settings import Settings
from tests.repository.test_containers import last
from tests.support.missing import skip_or_fail
from tests.support.root import ROOT

_CHART = ROOT / "deploy" / "k8s"
_GIVEN: dict[str, Any] = {
    "image": {"repository": "registry.example/shoal"},
    "settings": {"KAFKA": "kafka:9092", "REDIS": "redis://redis:6379/0"},
    "secret": {"name": "ward"},
    "policy": {"configMap": "ward-policy"},
}
_EVERYTHING: dict[str, Any] = {
    **_GIVEN,
    "image": {
        "repository": "registry.example/shoal",
        "digest": "sha256:" + "0" * 64,
        "pullSecrets": [{"name": "pull"}],
    },
    "settings": {**_GIVEN["settings"], "SESSION_S": 20, "EMBEDDED": False},
    "secret": {"name": "ward", "keys": ["KEY", "STATE_KEY"]},
    "certificates": {"secretName": "certificates"},
    "snapshots": {"claimName": "snapshots"},
    "policy": {"files": {"policy.yaml": "table: ward\n", "disease.csv": 'flu,"a, b",*\n'}},
    "networkPolicy": {"egress": [{"ports": [9093], "to": [{"podSelector": {"matchLabels": {"app": "kafka"}}}]}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "podLabels": {"team": "a"},
    "podAnnotations": {"note": "b"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
}
_BESIDE: dict[str, Any] = {
    **_EVERYTHING,
    "source": {"enabled": True, "mapping": "clinic.yaml"},
    "sink": {
        "enabled": True,
        "target": "postgresql://me@db:5432/x",
        "schema": "ward",
        "passwordSecret": "database",
        "resources": {"limits": {"memory": "1Gi"}},
    },
}
# What the chart uses of the Prometheus operator's two kinds: their own schemas cannot be had offline.
_MONITORING = {
    "ServiceMonitor": {
        "type": "object",
        "additionalProperties": False,
        "required": ["selector", "endpoints"],
        "properties": {
            "selector": {"type": "object", "additionalProperties": False, "required": ["matchLabels"],
                         "properties": {"matchLabels": {"type": "object"}}},
            "endpoints": {"type": "array", "minItems": 1, "items": {
                "type": "object", "additionalProperties": False, "required": ["port"],
                "properties": {"port": {"const": "web"}, "path": {"const": "/metrics"},
                               "interval": {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"}}}},
        },
    },
    "PrometheusRule": {
        "type": "object",
        "additionalProperties": False,
        "required": ["groups"],
        "properties": {"groups": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["name", "rules"]}}},
    },
}  # fmt: skip

Manifest = dict[str, Any]


@cache
def helm() -> str:
    kept = Path.home() / ".cache" / "shoal" / "bin" / "helm"
    found = shutil.which("helm") or (str(kept) if kept.exists() else None)
    if found is None:
        skip_or_fail("helm is missing: docs/testing.md says how to get it")
    return found


def run_helm(folder: Path, values: dict[str, Any], *command: str) -> "subprocess.CompletedProcess[str]":
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return subprocess.run(
        [helm(), *command, str(_CHART), "--kube-version", "1.31.0", "--values", path], capture_output=True, text=True
    )


@pytest.fixture
def render(tmp_path: Path) -> Callable[[dict[str, Any]], list[Manifest]]:
    def run(values: dict[str, Any]) -> list[Manifest]:
        done = run_helm(tmp_path, values, "template", "ward")
        assert done.returncode == 0, done.stderr
        return [one for one in yaml.safe_load_all(done.stdout) if one is not None]

    return run


Render = Callable[[dict[str, Any]], list[Manifest]]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = [one for one in manifests if one["kind"] == kind]
    return found


def wrong(manifest: Manifest) -> str | None:
    """What Kubernetes would not accept of a manifest: unknown fields, too."""
    if manifest["apiVersion"] == "monitoring.coreos.com/v1":
        try:
            jsonschema.Draft7Validator(_MONITORING[manifest["kind"]]).validate(manifest["spec"])
        except jsonschema.ValidationError as error:
            return error.message
        return None
    try:
        kubernetes_validate.validate(manifest, "1.31", strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("values", [_GIVEN, _EVERYTHING, _BESIDE], ids=["what must be given", "everything", "beside"])
def test_the_chart_renders_valid_kubernetes(values: dict[str, Any], render: Render, tmp_path: Path) -> None:
    lint = run_helm(tmp_path, values, "lint", "--strict")
    assert lint.returncode == 0, lint.stdout + lint.stderr
    manifests = render(values)
    assert {one["kind"]: wrong(one) for one in manifests if wrong(one)} == {}
    wanted = {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
    if values is not _GIVEN:
        wanted |= {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    assert {one["kind"] for one in manifests} == wanted


def test_a_manifest_with_a_misspelt_field_is_found(render: Render) -> None:
    """The known-bad twin."""
    for manifest in render(_EVERYTHING):
        spoilt = copy.deepcopy(manifest)
        spoilt["spec" if "spec" in spoilt else "metadata"]["replcas"] = 3
        assert wrong(spoilt), manifest["kind"]


@pytest.mark.parametrize(
    "change",
    [
        {"replica": 3},
        {"settings": {**_GIVEN["settings"], "KEY": "a secret in a values file"}},
        {"settings": {**_GIVEN["settings"], "REDIS": "redis://user:password@redis:6379/0"}},
        {"secret": {"name": ""}},
        {"secret": {"name": "ward", "keys": ["STATE_KEY"]}},
        {"policy": {}},
        {"policy": {"configMap": "a", "files": {"policy.yaml": ""}}},
        {"image": {}},
        {"source": {"enabled": True, "mapping": "../mapping.yaml"}},
        {"sink": {"enabled": True}},
        {"sink": {"enabled": True, "target": "postgresql://me:password@db/x"}},
    ],
    ids="-".join,
)
def test_values_that_cannot_work_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    done = run_helm(tmp_path, {**_GIVEN, **change}, "template", "ward")
    assert done.returncode != 0
    assert "schema" in done.stderr


def unrestricted(pod: dict[str, Any]) -> list[str]:
    """Where a pod falls short of Kubernetes' "restricted" profile, and of what Shoal asks besides."""
    found, security = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)], pod["securityContext"]
    if not security.get("runAsNonRoot") or security.get("runAsUser", 0) == 0:
        found.append("root")
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        found.append("seccomp")
    if pod.get("automountServiceAccountToken", True):
        found.append("token")
    kinds = {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}
    found += sorted(kinds - {"configMap", "emptyDir", "persistentVolumeClaim", "secret"})
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation", True) or own.get("privileged"):
            found.append("privileges")
        if own.get("capabilities") != {"drop": ["ALL"]}:
            found.append("capabilities")
        if not own.get("readOnlyRootFilesystem"):
            found.append("writable")
        if any("hostPort" in port for port in container.get("ports", [])):
            found.append("hostPort")
        if "memory" not in container.get("resources", {}).get("limits", {}):
            found.append("memory")
    return found


def test_the_worker_runs_restricted(render: Render) -> None:
    pod = only(render(_EVERYTHING), "Deployment")["spec"]["template"]["spec"]
    assert unrestricted(pod) == []
    assert pod["securityContext"]["runAsUser"] == int(last("USER").split(":")[0])
    spoilt = copy.deepcopy(pod)
    spoilt["containers"][0]["securityContext"] = {"privileged": True}
    spoilt["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    spoilt["automountServiceAccountToken"] = True
    assert unrestricted(spoilt) == ["token", "hostPath", "privileges", "capabilities", "writable"]


def test_a_source_and_a_sink_stand_beside_the_workers_and_are_none(render: Render) -> None:
    manifests = render(_BESIDE)
    deployments = {one["metadata"]["name"]: one["spec"] for one in manifests if one["kind"] == "Deployment"}
    assert deployments.keys() == {"ward-shoal", "ward-shoal-source", "ward-shoal-sink"}
    worker = only(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    walled = only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchExpressions"][0]["values"]
    monitored = only(manifests, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    for name in ("source", "sink"):
        deployment = deployments[f"ward-shoal-{name}"]
        assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["selector"]["matchLabels"].items() <= labels.items()
        assert not worker.items() <= labels.items()
        assert labels["app.kubernetes.io/name"] in walled
        assert unrestricted(deployment["template"]["spec"]) == []
        (service,) = [
            one for one in manifests if (one["kind"], one["metadata"]["name"]) == ("Service", f"ward-shoal-{name}")
        ]
        assert service["spec"]["selector"].items() <= labels.items()
        assert monitored.items() <= service["metadata"]["labels"].items()


def test_a_source_has_the_secrets_of_a_worker_and_a_sink_only_its_databases_password(render: Render) -> None:
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in render(_BESIDE)
        if one["kind"] == "Deployment"
    }
    source, sink = (pods[f"ward-shoal-{name}"]["containers"][0] for name in ("source", "sink"))
    assert source["args"] == ["source", "/policy/policy.yaml", "/policy/clinic.yaml", "--web-port", "6066"]
    assert sink["args"] == ["sink", "postgresql://me@db:5432/x", "--web-port", "6066", "--schema", "ward"]
    secrets = {one["name"] for one in source["env"] if one["name"].endswith("_FILE")}
    assert secrets == {"SHOAL_KEY_FILE", "SHOAL_STATE_KEY_FILE"}
    assert {one["name"] for one in sink["env"] if "valueFrom" in one or one["name"].endswith("_FILE")} == {"PGPASSWORD"}
    assert "secret" not in {volume["name"] for volume in pods["ward-shoal-sink"]["volumes"]}


def test_secrets_are_read_from_files_and_every_setting_is_one_that_shoal_knows(render: Render) -> None:
    pod = only(render(_EVERYTHING), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    assert not [one for one in container["env"] if "valueFrom" in one]
    fields = {f"SHOAL_{name.upper()}": field for name, field in Settings.model_fields.items()}
    secrets = {name for name, field in fields.items() if SecretStr in get_args(field.annotation)}
    assert given.keys() <= fields.keys() | {f"{name}_FILE" for name in secrets}
    assert not given.keys() & secrets
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (volume,) = [volume["secret"] for volume in pod["volumes"] if volume["name"] == "secret"]
    assert volume["defaultMode"] == 0o440
    files = {f"{mounts['secret']}/{item['path']}" for item in volume["items"]}
    assert files == {given["SHOAL_KEY_FILE"], given["SHOAL_STATE_KEY_FILE"]}
    assert given["SHOAL_POLICY"] == f"{mounts['policy']}/policy.yaml"
    assert (given["SHOAL_SESSION_S"], given["SHOAL_EMBEDDED"]) == ("20", "false")


def test_probes_ports_and_selectors_belong_together(render: Render) -> None:
    manifests = render(_EVERYTHING)
    template = only(manifests, "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (port,) = container["ports"]
    assert str(port["containerPort"]) == {one["name"]: one["value"] for one in container["env"]}["SHOAL_WEB_PORT"]
    for probe, page in (("startupProbe", "/health"), ("livenessProbe", "/health"), ("readinessProbe", "/ready")):
        assert container[probe]["httpGet"] == {"path": page, "port": port["name"]}
    labels = template["metadata"]["labels"].items()
    selectors = [
        only(manifests, "Deployment")["spec"]["selector"]["matchLabels"],
        only(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        only(manifests, "Service")["spec"]["selector"],
    ]
    assert all(selector.items() <= labels for selector in selectors)
    monitored = only(manifests, "ServiceMonitor")["spec"]
    service = only(manifests, "Service")
    assert monitored["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [one["name"] for one in service["spec"]["ports"]] == [one["port"] for one in monitored["endpoints"]]
    assert "shoal" in service["metadata"]["name"], "the alerts look for jobs with that name"
    policy = only(manifests, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [one["port"] for rule in policy["egress"] for one in rule["ports"]] == [53, 53, 9093]


def test_the_chart_brings_the_alerts_and_the_version_of_this_repository(render: Render) -> None:
    manifests = render(_EVERYTHING)
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "shoal.rules.yaml").read_text())
    assert only(manifests, "PrometheusRule")["spec"] == rules
    chart = yaml.safe_load((_CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (shoal.__version__, shoal.__version__)
    image = only(render(_GIVEN), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"registry.example/shoal:{shoal.__version__}"
    pinned = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert re.fullmatch(r"registry\.example/shoal@sha256:0{64}", pinned)
    assert only(manifests, "ConfigMap")["data"] == _EVERYTHING["policy"]["files"]
