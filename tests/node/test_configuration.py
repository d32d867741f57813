"""Defaults, a file, the environment and options: later ones win, and mistakes are named."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import (
    CONFIG_FILE,
    SETTINGS,
    ConfigError,
    NodeConfig,
    NodeLimits,
    host_settings,
    load_config,
    protocol_options,
)

REPEATABLE = settings(deadline=None, database=None, derandomize=True)

PEER = "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq"
NAMED_PEER = PEER.replace("/ip4/192.0.2.1", "/dns4/example.org")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a configuration, in an environment without any."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / CONFIG_FILE
    path.write_text(text, encoding="utf-8")
    return path


def load(
    options: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> NodeConfig:
    return load_config(options, environ=environ or {}, file=file)


# --- which source counts ---


def test_without_any_source_there_are_defaults(home: Path) -> None:
    assert load() == NodeConfig()
    assert load().data == home / ".smartpubsub"
    assert load().listen == ("/ip4/0.0.0.0/tcp/4001",)
    assert not (home / ".smartpubsub").exists()


def test_every_setting_has_an_allowed_default() -> None:
    config = NodeConfig()
    given_again = {name: getattr(config, name) for name in SETTINGS if name != "metrics"}

    assert load(given_again) == config
    assert {entry.name for entry in fields(NodeLimits)} < set(SETTINGS)


def test_later_sources_win(home: Path) -> None:
    written(home / ".smartpubsub", "backups = 3\nlog_level = 'debug'\nprotocol = 'floodsub'")
    environ = {"SMARTPUBSUB_BACKUPS": "4", "SMARTPUBSUB_LOG_LEVEL": "error", "PATH": "/bin"}

    config = load({"backups": 5}, environ)

    assert config == replace(NodeConfig(), backups=5, log_level="error", protocol="floodsub")


SOURCES = {"file": 3, "environ": 4, "options": 5}


@pytest.mark.parametrize("present", range(8))
def test_any_sources_combine(present: int, tmp_path: Path) -> None:
    there = [name for place, name in enumerate(SOURCES) if present >> place & 1]

    config = load(
        {"backups": SOURCES["options"]} if "options" in there else {"backups": None},
        {"SMARTPUBSUB_BACKUPS": str(SOURCES["environ"])} if "environ" in there else {},
        written(tmp_path, f"backups = {SOURCES['file']}" if "file" in there else ""),
    )

    assert config.backups == (SOURCES[there[-1]] if there else NodeConfig().backups)


@pytest.mark.parametrize(
    ("text", "meant"), [("crash", "crash"), ("standard", "crash"), ("byzantine", "byzantine")]
)
def test_a_resilience_has_its_name_and_one_of_earlier_versions(
    text: str, meant: str, tmp_path: Path
) -> None:
    assert load({}, {}, written(tmp_path, f"resilience = '{text}'")).resilience == meant
    assert protocol_options(load({"resilience": text})).resilience == meant


def test_the_file_is_looked_for_in_the_data_folder(tmp_path: Path) -> None:
    written(tmp_path / "a", "backups = 3")
    written(tmp_path / "b", "backups = 4")

    assert load({"data": tmp_path / "a"}).backups == 3
    assert load({}, {"SMARTPUBSUB_DATA": str(tmp_path / "b")}).backups == 4
    assert load({"data": str(tmp_path / "a")}, {"SMARTPUBSUB_DATA": "b"}).backups == 3


def test_a_file_that_is_named_is_read_instead(tmp_path: Path) -> None:
    written(tmp_path / "data", "backups = 3\nmdns = true")
    here, there = written(tmp_path / "a", "backups = 4"), written(tmp_path / "b", "backups = 5")
    data = {"data": tmp_path / "data"}
    environ = {"SMARTPUBSUB_CONFIG": str(there)}

    assert load(data, file=here) == NodeConfig(data=tmp_path / "data", backups=4)
    assert load(data, environ).backups == 5
    assert load(data, environ, here).backups == 4
    assert load(data, {"SMARTPUBSUB_CONFIG": ""}).backups == 3


def test_a_file_that_is_named_can_say_where_the_data_is(home: Path) -> None:
    file = written(home, "data = '~/elsewhere'")

    assert load(file=file).data == home / "elsewhere"
    assert load(file=Path("~") / CONFIG_FILE).data == home / "elsewhere"
    assert load({"data": "/here"}, file=file).data == Path("/here")


def test_the_processs_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMARTPUBSUB_BACKUPS", "7")

    assert load_config().backups == 7
    assert load_config(environ={}).backups == 2


# --- what values may be ---


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("backups", "0", 0),
        ("backups", "100", 100),
        ("stored_bytes_max", "2000000", 2_000_000),
        ("mdns", "true", True),
        ("mdns", "false", False),
        ("variant", "base-reliable", "base-reliable"),
        ("metrics", "off", None),
        ("metrics", "localhost:0", Endpoint("localhost", 0)),
        ("metrics", "[::1]:9464", Endpoint("::1", 9464)),
        ("bootstrap", "", ()),
        ("bootstrap", PEER, (PEER,)),
        ("bootstrap", f"{PEER}, {NAMED_PEER}", (PEER, NAMED_PEER)),
        ("listen", "/ip6/::/tcp/0,/ip4/127.0.0.1/tcp/1", ("/ip6/::/tcp/0", "/ip4/127.0.0.1/tcp/1")),
    ],
)
def test_text_is_read(name: str, text: str, value: Any, tmp_path: Path) -> None:
    expected = replace(NodeConfig(), **{name: value})

    assert load({}, {f"SMARTPUBSUB_{name.upper()}": text}) == expected
    assert load({name: text or None}) == expected
    assert load(file=written(tmp_path, f"{name} = '{text}'")) == expected


def test_what_toml_has_made_of_text_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        f"backups = 1\nmdns = true\nlisten = ['/ip4/127.0.0.1/tcp/0']\nbootstrap = ['{PEER}']",
    )

    assert load(file=file) == replace(
        NodeConfig(), backups=1, mdns=True, listen=("/ip4/127.0.0.1/tcp/0",), bootstrap=(PEER,)
    )


def test_an_endpoint_is_written_as_it_is_read() -> None:
    for text in ("localhost:9464", "[::1]:9464"):
        assert str(load({"metrics": text}).metrics) == text


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("backups", "many", "a whole number from 0 to 100"),
        ("backups", "-1", "a whole number from 0 to 100"),
        ("backups", "101", "a whole number from 0 to 100"),
        ("backups", "9" * 5_000, "a whole number from 0 to 100"),
        ("backups", "2.0", "a whole number from 0 to 100"),
        ("backups", "٢", "a whole number from 0 to 100"),
        ("backups", "", "a whole number from 0 to 100"),
        ("mdns", "yes", "true or false"),
        ("protocol", "ScoutSubs", "scoutsubs, fastdelivery, pulsarcast, floodsub or gossipsub"),
        ("variant", "reliable", "base-unreliable, base-reliable, redirect-unreliable or redirect-"),
        ("log_level", "loud", "debug, info, warning or error"),
        ("data", "", "the path of a folder"),
        ("data", "~nobody-has-this-name/x", "the path of a folder"),
        ("metrics", "9464", "off, or a host and a port such as 127.0.0.1:9464"),
        ("metrics", ":9464", "off, or a host and a port"),
        ("metrics", "::1:9464", "off, or a host and a port"),
        ("metrics", "[localhost]:9464", "off, or a host and a port"),
        ("metrics", "a b:9464", "off, or a host and a port"),
        ("metrics", "localhost:65536", "off, or a host and a port"),
        ("listen", "localhost:4001", "addresses /ip4/…/tcp/…"),
        ("listen", "/ip4/127.0.0.1/udp/4001/quic-v1", "addresses /ip4/…/tcp/…"),
        ("listen", "/ip4/127.0.0.1/tcp/4001,", "addresses /ip4/…/tcp/…"),
        ("listen", "/ip4/127.0.0.1/tcp/70000", "addresses /ip4/…/tcp/…"),
        ("listen", PEER, "addresses /ip4/…/tcp/…"),
        ("bootstrap", "/ip4/192.0.2.1/tcp/4001", "addresses that end in a peer id"),
        ("bootstrap", PEER[:-1], "addresses that end in a peer id"),
        ("message_bytes_max", "0", "a whole number from 1024 to 4194304"),
    ],
)
def test_a_bad_value_is_named_with_its_place(
    name: str, text: str, allowed: str, tmp_path: Path
) -> None:
    file = written(tmp_path, f"{name} = '{text}'")
    variable = f"SMARTPUBSUB_{name.upper()}"

    for place, options, environ, path in (
        (f"{file}:{name}", {}, {}, file),
        (variable, {}, {variable: text}, None),
        (name, {name: text}, {}, None),
    ):
        with pytest.raises(ConfigError) as caught:
            load(options, environ, path)
        assert str(caught.value).startswith(f"{place}: expected {allowed}")
        assert f"; found {text!r}"[:50] in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "line",
    [
        "backups = true",
        "backups = 2.5",
        "backups = [2]",
        "mdns = 1",
        "mdns = 'True'",
        "protocol = ['floodsub']",
        "metrics = 9464",
        "metrics = {host = 'localhost'}",
        "listen = [4001]",
        "listen = ['']",
        "listen = {}",
        "data = 5",
        'data = "a\\u0000b"',
        "log_level = 2024-01-01",
    ],
)
def test_a_value_of_another_type_is_named(line: str, tmp_path: Path) -> None:
    file = written(tmp_path, line)

    with pytest.raises(ConfigError, match=f"^{re.escape(str(file))}:{line.split()[0]}: expected "):
        load(file=file)


def test_a_value_that_a_later_one_wins_over_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="SMARTPUBSUB_BACKUPS: expected"):
        load({"backups": 2}, {"SMARTPUBSUB_BACKUPS": "many"})


# --- what is no setting, or no file ---


def test_an_unknown_name_is_named_with_those_there_are(tmp_path: Path) -> None:
    file = written(tmp_path, "[limits]\nbackups = 2")

    all_names = "there are announce, attribute_count"
    for place, options, environ, path, hint in (
        (f"{file}:limits", {}, {}, file, all_names),
        ("SMARTPUBSUB_BACKUP", {}, {"SMARTPUBSUB_BACKUP": "2"}, None, "did you mean backups?"),
        ("SMARTPUBSUB_backups", {}, {"SMARTPUBSUB_backups": "2"}, None, "did you mean backups?"),
        ("SMARTPUBSUB_", {}, {"SMARTPUBSUB_": "2"}, None, all_names),
        ("log_levels", {"log_levels": "info"}, {}, None, "did you mean log_level?"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(options, environ, path)
        assert caught.value.place == place
        assert caught.value.problem.startswith(f"no such setting; {hint}")


def test_the_data_folder_cannot_be_moved_from_within(tmp_path: Path) -> None:
    file = written(tmp_path, "data = '/elsewhere'")

    with pytest.raises(ConfigError) as caught:
        load({"data": tmp_path})

    assert str(caught.value) == (
        f"{file}:data: the file is in the data folder, so it cannot set the data folder;"
        " use an option, SMARTPUBSUB_DATA, or a file elsewhere"
    )


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_is_no_data_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ConfigError) as caught:
        load({"data": tmp_path / name})

    assert (caught.value.place, caught.value.is_option) == ("data", True)
    assert caught.value.problem.startswith("expected the path of a folder, which is made if it is")


def test_a_data_folder_that_there_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x/config.toml: .*; the node's settings are read here"):
        load({"data": tmp_path / ("x" * 300)})


def test_a_missing_file_that_is_named_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"

    with pytest.raises(ConfigError, match=r"none\.toml: no such file; name one"):
        load(file=file)
    with pytest.raises(ConfigError, match=r"none\.toml: no such file; name one"):
        load({}, {"SMARTPUBSUB_CONFIG": str(file)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"backups = ", r"no TOML: Invalid value \(at end of document\)"),
        (b"\nbackups 2", r"no TOML: .*\(at line 2, column 9\)"),
        (b"backups = 2\nbackups = 3", "no TOML: Cannot overwrite a value"),
        (b"# caf\xe9", "byte 5 is not UTF-8"),
        (b"backups = " + b"[" * 10_000, "no TOML: "),
    ],
)
def test_a_file_that_is_no_toml_is_named(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match=rf"bad\.toml: {problem}"):
        load(file=file)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(REPEATABLE, max_examples=300)
@given(st.dictionaries(st.sampled_from([*SETTINGS, "other"]), anything, max_size=3))
def test_nothing_but_a_configuration_or_its_error_comes_of_options(
    options: dict[str, object],
) -> None:
    with suppress(ConfigError):
        assert load(options).backups in range(101)


@settings(REPEATABLE, max_examples=300)
@given(
    st.sampled_from(SETTINGS).filter(lambda name: name != "data"),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.text(st.sampled_from("/ip46tcpdns:.0129,[]"), max_size=30),
)
def test_nothing_but_a_configuration_or_its_error_comes_of_text(name: str, text: str) -> None:
    with suppress(ConfigError):
        assert load({}, {f"SMARTPUBSUB_{name.upper()}": text}).backups in range(101)


def test_the_host_keeps_to_the_limits_of_the_configuration() -> None:
    config = NodeConfig(
        connection_count_max=30, stream_count_max=5, question_count_max=6, messages_per_s_max=7
    )
    settings = host_settings(config)

    assert (settings.connection_count_max, settings.stream_count_max) == (30, 5)
    assert (settings.question_count_max, settings.messages_per_s_max) == (6, 7)
    assert settings.connection_count_high < 30
