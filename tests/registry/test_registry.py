"""Protocols are found by name: built in, registered by a call, or named by an entry point."""

import logging
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from smartpubsub.protocols import registry
from smartpubsub.protocols.registry import (
    BUILT_IN,
    ENTRY_POINTS,
    PROTOCOLS,
    RegistrationError,
    Registry,
    UnknownProtocolError,
    codecs_of,
)
from tests.registry import toy

NAMES = ["scoutsubs", "fastdelivery", "pulsarcast", "floodsub", "gossipsub"]


def registry_with(monkeypatch: pytest.MonkeyPatch, *targets: str) -> Registry:
    """A registry in an environment whose packages have these entry points."""
    found = [EntryPoint(f"entry{n}", target, ENTRY_POINTS) for n, target in enumerate(targets)]
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: found if group == ENTRY_POINTS else []
    )
    return Registry(BUILT_IN)


def test_built_in_protocols_are_there() -> None:
    assert list(Registry(BUILT_IN).specs) == NAMES


def test_an_unknown_name_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(UnknownProtocolError, match="'no-such' is not a protocol; there are: sc"):
        PROTOCOLS.spec_of("no-such")


def test_a_registered_protocol_is_found_by_its_name() -> None:
    protocols = Registry(BUILT_IN)
    protocols.register(toy.SPEC)
    protocols.register(toy.SPEC)  # Again changes nothing.

    assert protocols.spec_of("toy") is toy.SPEC
    assert list(protocols.specs) == [*NAMES, "toy"]


def test_a_name_is_given_once() -> None:
    with pytest.raises(RegistrationError, match="another protocol 'floodsub'"):
        Registry(BUILT_IN).register(replace(toy.SPEC, name="floodsub"))


def test_only_specs_are_registered() -> None:
    with pytest.raises(RegistrationError, match="is no ProtocolSpec"):
        Registry(BUILT_IN).register("toy")  # type: ignore[arg-type]


def test_a_protocol_of_an_entry_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    protocols = registry_with(monkeypatch, "tests.registry.toy:SPEC")

    assert protocols.spec_of("toy") is toy.SPEC


def test_broken_entry_points_leave_the_other_protocols_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ("no_such_module:SPEC", "tests.registry.toy:codec")
    with caplog.at_level(logging.WARNING):
        protocols = registry_with(monkeypatch, broken[0], "tests.registry.toy:SPEC", broken[1])

        assert list(protocols.specs) == [*NAMES, "toy"]
    assert len(caplog.records) == 2
    with pytest.raises(UnknownProtocolError) as error:
        protocols.spec_of("mine")
    for target in broken:
        assert f"{target} could not be loaded" in str(error.value)


def test_a_node_speaks_its_protocol_and_those_of_its_residents_once_each() -> None:
    for name in NAMES:
        spoken = [codec.message for codec in codecs_of(name)]
        assert len(spoken) == len(set(spoken))

    assert len(codecs_of("scoutsubs")) == len(codecs_of("fastdelivery")) + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_is_the_last_unless_another_is_wanted(name: str) -> None:
    spec = PROTOCOLS.spec_of(name)

    assert spec.variant(None) == (spec.variants[-1] if spec.variants else "")


def test_a_variant_that_a_protocol_does_not_have_is_refused() -> None:
    with pytest.raises(Exception, match="scoutsubs has no variant fast; it has base-unreliable"):
        PROTOCOLS.spec_of("scoutsubs").variant("fast")
