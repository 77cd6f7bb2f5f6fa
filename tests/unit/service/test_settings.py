"""Settings: parsed once, all problems together, secrets never shown."""

from pathlib import Path

import pytest

from shoal.streams.settings import SettingsError, load_settings

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
    settings = load_settings({"SHOAL_KEY": "canary-one, and long", "SHOAL_STATE_KEY": "canary-two, and long"}, NOWHERE)
    assert "canary" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.key_bytes == b"canary-one, and long"
    with pytest.raises(SettingsError) as caught:
        load_settings({"SHOAL_KEY": "canary-one, and long", "SHOAL_REDIS": "canary://user:canary@host"}, NOWHERE)
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
