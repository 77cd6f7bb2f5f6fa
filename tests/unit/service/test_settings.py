"""Settings: parsed once, all problems together, secrets never shown."""

from pathlib import Path

import pytest

from shoal.streams.settings import SECRET_FILES, SettingsError, load_settings

NOWHERE = Path("/nonexistent/.env")


def test_without_any_variable_the_defaults_are_those_of_one_machine() -> None:
    settings = load_settings({}, NOWHERE)
    assert (settings.kafka, settings.redis) == ("localhost:9092", "redis://localhost:6379/0")
    assert settings.key is None


def test_every_problem_is_reported_at_once() -> None:
    environ = {
        "SHOAL_KAFKA": "no port",
        "SHOAL_REDIS": "http://localhost",
        "SHOAL_WEB_PORT": "99999",
        "SHOAL_PARTITIONS": "many",
        "SHOAL_KAFAK": "x",
    }
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, NOWHERE, required=["policy", "key"])
    text = str(caught.value)
    for name in ("KAFKA", "REDIS", "WEB_PORT", "PARTITIONS", "KAFAK", "POLICY", "KEY"):
        assert f"SHOAL_{name}" in text
    assert caught.value.exit_code == 2
    assert len(caught.value.problems) == 7


def test_a_misspelt_setting_is_refused_and_the_right_name_suggested() -> None:
    with pytest.raises(SettingsError, match="did you mean SHOAL_STATE_KEY"):
        load_settings({"SHOAL_STATEKEY": "x"}, NOWHERE)


def test_names_that_others_read_are_not_refused() -> None:
    load_settings({"SHOAL_CRASH_AT": "ingest.1", "SHOAL_REQUIRE_SERVICES": "1", "OTHER": "x"}, NOWHERE)


def test_secrets_appear_neither_in_the_settings_nor_in_an_error() -> None:
    settings = load_settings({"SHOAL_KEY": "canary-one, and long", "SHOAL_STATE_KEY": "canary-two and long"}, NOWHERE)
    assert "canary" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.key_bytes == b"canary-one, and long"
    with pytest.raises(SettingsError) as caught:
        load_settings({"SHOAL_KEY": "canary-one, and long", "SHOAL_REDIS": "canary://user:canary@host"}, NOWHERE)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "secret", ["short", "fifteen letters", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0123456012345601234560"]
)
@pytest.mark.parametrize("name", ["SHOAL_KEY", "SHOAL_STATE_KEY"])
def test_a_key_that_can_be_guessed_is_refused_and_not_shown(name: str, secret: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}: must have at least 16 characters, 8 of them different") as caught:
        load_settings({name: secret}, NOWHERE)
    assert secret not in str(caught.value)


def test_a_state_key_may_be_a_ring_and_each_key_of_it_is_looked_at() -> None:
    old, new = "jIwq8+3Zr0kN5uQ1VdYh2w==", "correct horse battery staple"
    for ring in (f"{new},{old}", f"{new}\n{old}", f"{new}, {old}"):
        assert load_settings({"SHOAL_STATE_KEY": ring}, NOWHERE).state_key_bytes == ring.encode()
    with pytest.raises(SettingsError, match="SHOAL_STATE_KEY: key 2 of 2 must have at least 16 characters"):
        load_settings({"SHOAL_STATE_KEY": f"{new},short"}, NOWHERE)
    with pytest.raises(SettingsError, match="SHOAL_STATE_KEY: has the same key twice"):
        load_settings({"SHOAL_STATE_KEY": f"{new},{new}"}, NOWHERE)


def test_a_key_from_any_generator_is_taken() -> None:
    for secret in ("9f86d081884c7d65", "correct horse battery staple", "jIwq8+3Zr0kN5uQ1VdYh2w=="):
        assert load_settings({"SHOAL_KEY": secret}, NOWHERE).key_bytes == secret.encode()


def test_every_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    assert SECRET_FILES.keys() == {
        "key_file", "state_key_file", "kafka_sasl_password_file", "kafka_ssl_key_password_file",
        "kafka_oauth_client_secret_file", "redis_file", "redis_password_file", "redis_sentinel_password_file",
        "schema_registry_password_file",
    }  # fmt: skip
    file = tmp_path / "secret"
    file.write_text("a secret that a file keeps\n")
    assert load_settings({"SHOAL_KEY_FILE": str(file)}, NOWHERE, required=["key"]).key_bytes == (
        b"a secret that a file keeps"
    )
    file.write_text("redis://:password@host:1/0\r\n")
    assert load_settings({"SHOAL_REDIS_FILE": str(file)}, NOWHERE).redis == "redis://:password@host:1/0"


def test_a_file_with_a_secret_must_be_there_have_one_and_stand_alone(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    weak = tmp_path / "weak"
    weak.write_text("weak canary")
    for environ, words in (
        ({"SHOAL_KEY_FILE": str(tmp_path / "none")}, "SHOAL_KEY_FILE: .* cannot be read: No such file"),
        ({"SHOAL_KEY_FILE": str(empty)}, "SHOAL_KEY_FILE: .* is empty"),
        ({"SHOAL_KEY_FILE": str(weak)}, "SHOAL_KEY: must have at least"),
        ({"SHOAL_KEY_FILE": str(weak), "SHOAL_KEY": "x" * 16}, "are both set"),
        ({"SHOAL_POLICY_FILE": str(weak)}, "SHOAL_POLICY_FILE is not a setting"),
    ):
        with pytest.raises(SettingsError, match=words) as caught:
            load_settings(environ, NOWHERE, required=["key"] if "SHOAL_KEY_FILE" in environ else [])
        assert "canary" not in str(caught.value)
        assert not any("is not set" in problem for problem in caught.value.problems)


SASL = {"SHOAL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "SHOAL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}
USER = {"SHOAL_KAFKA_SASL_USERNAME": "ward", "SHOAL_KAFKA_SASL_PASSWORD": "canary"}
REGISTRY = {"SHOAL_SCHEMA_REGISTRY_URL": "http://registry:8081"}
TOKEN = {"SHOAL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "SHOAL_KAFKA_SASL_MECHANISM": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"SHOAL_KAFKA_SECURITY_PROTOCOL": "TLS"}, "SHOAL_KAFKA_SECURITY_PROTOCOL: .*SASL_SSL"),
        ({"SHOAL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "needs SHOAL_KAFKA_SASL_MECHANISM"),
        (SASL, "SCRAM-SHA-512 needs SHOAL_KAFKA_SASL_USERNAME"),
        (USER, "SHOAL_KAFKA_SASL_PASSWORD has no effect while SHOAL_KAFKA_SECURITY_PROTOCOL is PLAINTEXT"),
        ({"SHOAL_KAFKA_SSL_CA": "ca.pem"}, "SHOAL_KAFKA_SSL_CA has no effect"),
        ({**SASL, **USER, "SHOAL_KAFKA_SSL_CERT": "c.pem"}, "go together"),
        (TOKEN, "OAUTHBEARER needs SHOAL_KAFKA_OAUTH_TOKEN_FILE"),
        ({**TOKEN, "SHOAL_KAFKA_OAUTH_ENDPOINT": "https://a"}, "needs SHOAL_KAFKA_OAUTH_CLIENT_ID"),
        ({**TOKEN, "SHOAL_KAFKA_OAUTH_ENDPOINT": "http://a"}, "must begin with https"),
        ({"SHOAL_REDIS_SSL_CA": "ca.pem"}, "SHOAL_REDIS_SSL_CA has no effect unless"),
        ({"SHOAL_REDIS_SENTINEL_PASSWORD": "canary"}, "has no effect unless SHOAL_REDIS names Sentinels"),
        ({"SHOAL_SCHEMA_REGISTRY_URL": "registry:8081"}, "SHOAL_SCHEMA_REGISTRY_URL: must begin with http"),
        ({"SHOAL_SCHEMA_REGISTRY_URL": "http://me:canary@a"}, "have no password in it"),
        ({**REGISTRY, "SHOAL_SCHEMA_REGISTRY_PASSWORD": "canary"}, "go together"),
        ({"SHOAL_SCHEMA_REGISTRY_USERNAME": "me", "SHOAL_SCHEMA_REGISTRY_PASSWORD": "canary"}, "without SHOAL_SCHEMA"),
        ({**REGISTRY, "SHOAL_SCHEMA_REGISTRY_SSL_CA": "ca.pem"}, "unless SHOAL_SCHEMA_REGISTRY_URL begins with https"),
    ],
)
def test_a_setting_without_effect_or_partner_is_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        load_settings(environ, NOWHERE)
    assert "canary" not in str(caught.value)


def test_a_dotenv_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("# a comment\n\nexport SHOAL_KAFKA=\"a:1\"\nSHOAL_REDIS='redis://b:2/0'\nPATH_OF_OTHERS=x\n")
    settings = load_settings({"SHOAL_KAFKA": "c:3"}, dotenv)
    assert (settings.kafka, settings.redis) == ("c:3", "redis://b:2/0")


def test_a_broken_line_of_a_dotenv_file_is_named_by_its_number(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("SHOAL_KAFKA=a:1\nwhat is this\n")
    with pytest.raises(SettingsError, match=r"\.env:2"):
        load_settings({}, dotenv)


def test_an_option_of_a_command_wins_over_everything(tmp_path: Path) -> None:
    settings = load_settings({"SHOAL_POLICY": "a.yaml"}, NOWHERE, required=["policy"], policy="b.yaml", kafka=None)
    assert settings.policy_path == Path("b.yaml")


def test_an_empty_variable_counts_as_not_set() -> None:
    with pytest.raises(SettingsError, match="SHOAL_KEY is not set"):
        load_settings({"SHOAL_KEY": ""}, NOWHERE, required=["key"])


def test_settings_cannot_be_changed() -> None:
    settings = load_settings({}, NOWHERE)
    with pytest.raises(ValueError, match="frozen"):
        settings.kafka = "x:1"
