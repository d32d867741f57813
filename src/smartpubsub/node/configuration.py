"""The configuration of a node: defaults, a TOML file, the environment and options.

Later sources override earlier ones. Every value is checked, also one that is overridden.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypedDict

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.id_work import BITS_MAX
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.node.config_values import (
    ANNOUNCED_ADDRESSES,
    ENDPOINT,
    FILE,
    FOLDER,
    HOST_NAMES,
    LISTEN_ADDRESSES,
    NAME,
    PEER_ADDRESSES,
    SWITCH,
    Endpoint,
    Values,
    one_of,
    whole,
)
from smartpubsub.node.storage.kept import KeptLimits
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.predicates import ATTRIBUTES_MAX
from smartpubsub.protocols.codecs import WireLimits
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.pulsarcast.settings import Retention
from smartpubsub.protocols.registry import PROTOCOLS, protocol_names
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.spec import DEFAULT_RESILIENCE, RESILIENCES, ProtocolOptions

CONFIG_FILE = "config.toml"
"""The name of the configuration file in the data folder."""
VARIABLES = "SMARTPUBSUB_"
FILE_VARIABLE = f"{VARIABLES}CONFIG"

VALUES_SHARE = 4
"""Peers' values may take one part in this many of the storage."""
KEPT_SHARE = 16
"""Events that wait for the readers of subscriptions may take one part in this many."""
DAY_S = 24 * 60 * 60
ATTRIBUTE_COUNT_MAX = 1_000
"""The highest limit of attributes in a predicate."""

_SHOWN_MAX = 60
_MEGABYTE = 1 << 20


class ConfigError(SmartPubSubError):
    """A setting with a value that is not allowed: its place, and the allowed values."""

    is_usage_error = True

    def __init__(self, place: str, problem: str, *, is_option: bool = False) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.is_option = is_option
        """Whether the value is that of a command-line option; the place is then its name."""


def _default_folder() -> Path:
    return Path.home() / ".smartpubsub"


def _setting(default: object, values: Values | Callable[[], Values]) -> Any:
    return field(default=default, metadata={"values": values})


def _variants() -> Values:
    named = one_of(PROTOCOLS.variants())
    return Values(named.allowed, lambda value: "" if value == "" else named.read(value))


def _resiliences() -> Values:
    named = one_of(RESILIENCES)
    # Configurations of earlier versions call `crash` so.
    return Values(
        named.allowed, lambda value: named.read("crash" if value == "standard" else value)
    )


@dataclass(frozen=True, kw_only=True)
class NodeLimits:
    """The limits of a node."""

    connection_count_max: int = _setting(HostSettings.connection_count_max, whole(1, 100_000))
    connections_per_prefix_max: int = _setting(
        HostSettings.connections_per_prefix_max, whole(1, 100_000)
    )
    """Connections that peers with the same IPv4 address, or /56 of IPv6, open to the node."""
    stream_count_max: int = _setting(HostSettings.stream_count_max, whole(4, 10_000))
    """Streams that the peer opens on one connection."""
    question_count_max: int = _setting(HostSettings.question_count_max, whole(1, 1_000_000))
    """Open questions to one peer."""
    frame_s: int = _setting(int(HostSettings.frame_s), whole(1, 86_400))
    """From the first byte of a message to its last."""
    unfinished_bytes_max: int = _setting(HostSettings.unfinished_bytes_max, whole(1_024, 1 << 40))
    """Bytes of incomplete messages, of all peers together."""
    messages_per_s_max: int = _setting(HostSettings.messages_per_s_max, whole(1, 10_000_000))
    """Messages of one kind from one peer."""
    message_bytes_max: int = _setting(
        WireLimits.message_bytes_max, whole(1_024, WireLimits.message_bytes_max)
    )
    """Peers may send messages up to the default; a node with a lower limit refuses longer ones."""
    filter_count_max: int = _setting(ScoutSettings.filter_count_max, whole(1, 100_000_000))
    """Filters of one peer in ScoutSubs."""
    attribute_count_per_peer_max: int = _setting(
        ScoutSettings.attribute_count_per_peer_max, whole(1, 1_000_000)
    )
    """Attributes under which one peer has filters in ScoutSubs."""
    group_count_max: int = _setting(FastSettings.group_count_max, whole(1, 1_000_000))
    """Groups that the node owns, and groups that it is a member of."""
    attribute_count_max: int = _setting(ATTRIBUTES_MAX, whole(1, ATTRIBUTE_COUNT_MAX))
    """Attributes of a predicate."""
    ban_s: int = _setting(int(HostSettings.ban_s), whole(0, 1_000_000_000))
    """How long the node bans a peer whose message made a protocol fail."""
    stored_bytes_max: int = _setting(1_024 * _MEGABYTE, whole(_MEGABYTE, 1 << 50))
    topic_event_count_max: int = _setting(Retention.event_count_max, whole(1, 1_000_000_000))
    """Events of one topic that is not pinned; the oldest are dropped first."""
    topic_bytes_max: int = _setting(Retention.byte_count_max, whole(1, 1 << 50))
    """Likewise."""
    topic_age_s_max: int = _setting(0, whole(0, 1_000_000_000))
    """The age of events of a topic that is not pinned; 0 for any age."""
    history_s_max: int = _setting(DAY_S, whole(0, 1_000_000_000))
    """How long ScoutSubs keeps events for later subscribers; 0 for not at all."""
    history_event_count_max: int = _setting(
        ScoutSettings.history_count_max, whole(1, 1_000_000_000)
    )
    """Events of one attribute; the oldest are dropped first."""
    history_bytes_max: int = _setting(ScoutSettings.history_bytes_max, whole(1, 1 << 50))
    """Bytes of history of all attributes together; at most an eighth of `stored_bytes_max`."""
    kept_event_count_max: int = _setting(100_000, whole(1, 1_000_000_000))
    """Events that wait for the reader of a subscription with `keep` or `block`; oldest go first."""
    kept_bytes_max: int = _setting(64 * _MEGABYTE, whole(1, 1 << 50))
    """Bytes of these events; at most a sixteenth of `stored_bytes_max` for all subscriptions."""
    kept_age_s_max: int = _setting(7 * DAY_S, whole(0, 1_000_000_000))
    """The age of these events; 0 for any age."""
    key_count_max: int = _setting(10_000, whole(1, 1_000_000))
    """Publication keys that the node remembers; the oldest are forgotten first."""
    key_age_s_max: int = _setting(7 * DAY_S, whole(1, 1_000_000_000))
    """Likewise."""


@dataclass(frozen=True, kw_only=True)
class NodeConfig(NodeLimits):
    """The configuration of a node."""

    data: Path = field(default_factory=_default_folder, metadata={"values": FOLDER})
    """The data folder."""
    listen: tuple[str, ...] = _setting(("/ip4/0.0.0.0/tcp/4001",), LISTEN_ADDRESSES)
    announce: tuple[str, ...] = _setting((), ANNOUNCED_ADDRESSES)
    """Where other nodes reach this one, if not where it listens: behind NAT, or in a container."""
    bootstrap: tuple[str, ...] = _setting((), PEER_ADDRESSES)
    """Peers through which the node joins the network, besides those that it remembers."""
    network_key: Path | None = field(default=None, metadata={"values": FILE})
    """The file with the key of a private network; only nodes that have it connect."""
    id_work_bits: int = _setting(0, whole(0, BITS_MAX))
    """The proof of work that peer ids need to have a role in the network (docs/security.md). All
    nodes of a network have the same; a new node makes its id with it."""
    peers_per_prefix_max: int = _setting(0, whole(0, 100_000))
    """How many peers with the same /24 of IPv4, or /48 of IPv6, may have a role for a name
    (docs/security.md); 0 for any number. All nodes of a network should have the same."""
    loopback_is_exempt: bool = _setting(False, SWITCH)
    """Whether the limits by address prefix leave out peers on this machine."""
    mdns: bool = _setting(False, SWITCH)
    """Whether the node looks for peers in the local network."""
    # The allowed values are known only when all protocols are registered, which is later.
    protocol: str = _setting("scoutsubs", lambda: one_of(protocol_names()))
    variant: str = _setting("", _variants)
    """The variant, if the protocol has variants; empty for the default one."""
    backups: int = _setting(2, whole(0, 100))
    """The number of replicas besides this node."""
    resilience: str = _setting(DEFAULT_RESILIENCE, _resiliences)
    """What the network withstands: with `crash` nodes that stop, with `audited` also nodes that
    drop events, and with `byzantine` more of them at a higher cost (docs/security.md). All nodes of
    a network should have the same."""
    region: str = _setting("", NAME)
    """Where the node is, for groups; if it is empty, owners of groups measure it."""
    capacity: int = _setting(10, whole(0, 1_000_000))
    """How many members of a group the node serves as a helper."""
    log_level: str = _setting("info", one_of(["debug", "info", "warning", "error"]))
    metrics: Endpoint | None = field(default=None, metadata={"values": ENDPOINT})
    """Where metrics are served."""
    http: Endpoint | None = field(default=None, metadata={"values": ENDPOINT})
    """Where the HTTP gateway is served."""
    http_hosts: tuple[str, ...] = _setting((), HOST_NAMES)
    """Names by which clients call the gateway and the metrics, besides their addresses."""


class NodeOptions(TypedDict, total=False):
    """The settings as keyword arguments; None stands for the default."""

    data: str | Path | None
    listen: Sequence[str] | None
    announce: Sequence[str] | None
    bootstrap: Sequence[str] | None
    network_key: str | Path | None
    id_work_bits: int | None
    peers_per_prefix_max: int | None
    mdns: bool | None
    loopback_is_exempt: bool | None
    protocol: str | None
    variant: str | None
    backups: int | None
    resilience: str | None
    region: str | None
    capacity: int | None
    log_level: Literal["debug", "info", "warning", "error"] | None
    metrics: str | None
    http: str | None
    http_hosts: Sequence[str] | None
    connection_count_max: int | None
    connections_per_prefix_max: int | None
    stream_count_max: int | None
    question_count_max: int | None
    frame_s: int | None
    unfinished_bytes_max: int | None
    messages_per_s_max: int | None
    message_bytes_max: int | None
    filter_count_max: int | None
    attribute_count_per_peer_max: int | None
    group_count_max: int | None
    attribute_count_max: int | None
    stored_bytes_max: int | None
    topic_event_count_max: int | None
    topic_bytes_max: int | None
    topic_age_s_max: int | None
    history_s_max: int | None
    history_event_count_max: int | None
    history_bytes_max: int | None
    kept_event_count_max: int | None
    kept_bytes_max: int | None
    kept_age_s_max: int | None
    key_count_max: int | None
    key_age_s_max: int | None
    ban_s: int | None


_VALUES: dict[str, Values | Callable[[], Values]] = {
    entry.name: entry.metadata["values"] for entry in fields(NodeConfig)
}

SETTINGS: tuple[str, ...] = tuple(_VALUES)
"""The names of settings in a file. The environment has them in capitals after `SMARTPUBSUB_`."""


def host_settings(config: NodeConfig) -> HostSettings:
    """The settings of the host."""
    connections = config.connection_count_max
    usual = HostSettings()
    return replace(
        usual,
        connection_count_max=connections,
        connection_count_high=min(usual.connection_count_high, max(1, connections * 2 // 3)),
        connections_per_prefix_max=config.connections_per_prefix_max,
        loopback_is_exempt=config.loopback_is_exempt,
        stream_count_max=config.stream_count_max,
        question_count_max=config.question_count_max,
        messages_per_s_max=config.messages_per_s_max,
        frame_s=config.frame_s,
        unfinished_bytes_max=config.unfinished_bytes_max,
        ban_s=config.ban_s,
    )


def kademlia_settings(config: NodeConfig) -> Settings:
    """The settings of the overlay."""
    return Settings(
        values_bytes_max=config.stored_bytes_max // VALUES_SHARE,
        id_work_bits=config.id_work_bits,
        peers_per_prefix_max=config.peers_per_prefix_max,
    )


def protocol_options(config: NodeConfig) -> ProtocolOptions:
    """The options of the protocols."""
    return ProtocolOptions(
        variant=config.variant,
        backups=config.backups,
        resilience=config.resilience,
        region=config.region,
        capacity=config.capacity,
        limits={entry.name: getattr(config, entry.name) for entry in fields(NodeLimits)},
    )


def kept_limits(config: NodeConfig) -> KeptLimits:
    """The limits of subscriptions whose events wait on disk."""
    return KeptLimits(
        event_count_max=config.kept_event_count_max,
        byte_count_max=config.kept_bytes_max,
        all_bytes_max=config.stored_bytes_max // KEPT_SHARE,
        age_us_max=config.kept_age_s_max * SECOND or None,
    )


def wire_limits(config: NodeConfig) -> WireLimits:
    """The limits of messages."""
    return WireLimits(
        message_bytes_max=config.message_bytes_max, attribute_count_max=config.attribute_count_max
    )


def load_config(
    options: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> NodeConfig:
    """Read the configuration from all sources.

    Options have the names of settings; None is ignored. The environment is that
    of the process unless another is given.
    """
    environ = os.environ if environ is None else environ
    later = _from_environ(environ) | _from_options(options or {})
    file = file or _named_file(environ)
    if file is None:
        data = later.get("data", _default_folder())
        in_file = _from_own_file(data / CONFIG_FILE)
    else:
        in_file = _from_named_file(file.expanduser())
    return NodeConfig(**in_file | later)


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {f"{VARIABLES}{name.upper()}": name for name in SETTINGS}
    return {
        names.get(variable, variable): _checked(names.get(variable), text, variable)
        for variable, text in environ.items()
        if variable.startswith(VARIABLES) and variable != FILE_VARIABLE
    }


def _from_options(options: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: _checked(name, value, name, is_option=True)
        for name, value in options.items()
        if value is not None
    }


def _named_file(environ: Mapping[str, str]) -> Path | None:
    name = environ.get(FILE_VARIABLE)
    return Path(name) if name else None


def _from_own_file(path: Path) -> dict[str, Any]:
    """Read the file in the data folder, if there is one."""
    try:
        in_file = _from_file(path)
    except FileNotFoundError:
        return {}
    if "data" in in_file:
        raise ConfigError(
            f"{path}:data",
            "the file is in the data folder, so it cannot set the data folder; use an option,"
            f" {VARIABLES}DATA, or a file elsewhere",
        )
    return in_file


def _from_named_file(path: Path) -> dict[str, Any]:
    try:
        return _from_file(path)
    except FileNotFoundError:
        raise ConfigError(str(path), "no such file; name one that is there, or none") from None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"{error.strerror}; the node's settings are read here; choose a path to read"
        raise ConfigError(str(path), problem) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start} is not UTF-8; write it again") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(path), f"no TOML: {error}") from None
    return {name: _checked(name, value, f"{path}:{name}") for name, value in table.items()}


def _checked(name: str | None, value: object, place: str, *, is_option: bool = False) -> Any:
    values = _VALUES.get(name or "")
    if callable(values):
        values = values()
    if values is None:
        close = get_close_matches(name or place.removeprefix(VARIABLES).lower(), SETTINGS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(SETTINGS))}"
        problem = f"no such setting; {hint}"
        raise ConfigError(place, problem, is_option=is_option)
    try:
        return values.read(value)
    except ValueError:
        problem = f"expected {values.allowed}; found {_shown(value)}"
        raise ConfigError(place, problem, is_option=is_option) from None


def _shown(value: object) -> str:
    several = value if isinstance(value, list | tuple) else [value]
    text = ", ".join(repr(str(one) if isinstance(one, Path) else one) for one in several) or "none"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
