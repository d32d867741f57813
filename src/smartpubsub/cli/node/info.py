"""smartpubsub node info."""

from __future__ import annotations

import json
from typing import Any

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import counted, json_option, print_json

_NETWORKS = {
    "public": "public: any node can connect",
    "private": "private: only nodes with the network's key can connect",
}


@click.command()
@data_option
@click.option("--metrics", is_flag=True, help="Print its metrics in Prometheus' text format.")
@json_option
def info(data: str | None, metrics: bool, as_json: bool) -> None:
    """Show a running node and its subscriptions.

    Prints the peer id, the addresses, and the subscriptions with the numbers that unsub takes.

    \b
    Examples:
      smartpubsub node info
      smartpubsub node info --data b --json
      smartpubsub node info --metrics
    """
    with running_node(data) as node:
        found = node.ask("info")
        counted = node.ask("metrics") if metrics else None
    if counted is not None:
        click.echo(json.dumps({"metrics": counted}) if as_json else counted, nl=as_json)
    elif as_json:
        print_json(found)
    else:
        click.echo("\n".join(f"{name:<14}{value}" for name, value in lines(found)))


def lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Format a node's information."""
    failures = found["failures"]
    return [
        ("peer id", found["peer_id"]),
        *(("address", address) for address in found["addresses"]),
        ("protocol", " ".join(filter(None, (found["protocol"], found["variant"])))),
        ("network", _NETWORKS[found["network"]]),
        ("peers", f"{found['peers']:,}"),
        ("data", found["data"]),
        ("process", f"{found['process']}"),
        ("version", found["version"]),
        *(("failure", f"{reason} ({times:,})") for reason, times in failures["dropped"].items()),
        *((("restarts", f"{failures['restarts']:,}"),) if failures["restarts"] else ()),
        *((("banned peers", f"{failures['banned']:,}"),) if failures["banned"] else ()),
        *(("distrusted", distrusted_text(each)) for each in found["distrusted"]),
        *(("kept", account_text(account)) for account in found["ledger"] if account["size"]),
        *(("subscription", subscription_text(info)) for info in found["subscriptions"]),
    ]


def distrusted_text(found: dict[str, Any]) -> str:
    """Format a convicted or blamed peer."""
    reasons = [f"{reason} ({times:,})" for reason, times in found["reasons"].items()]
    proven = [f"convicted: has signed {found['convicted_by']}"] if found["convicted_by"] else []
    blamed = [f"blame {found['blame']:.1f}: {', '.join(reasons)}"] if found["blame"] else []
    return f"{found['who']}  {'; '.join([*proven, *blamed])}"


def account_text(account: dict[str, Any]) -> str:
    """Format an account of what a node keeps for other nodes."""
    refused = f", {account['refused']:,} refused" if account["refused"] else ""
    evicted = f", {account['evicted']:,} evicted" if account["evicted"] else ""
    share = f"{account['size']:,} of {account['size_max']:,}"
    return f"{account['name']}  {share} for {counted(account['users'], 'user')}{refused}{evicted}"


def subscription_text(info: dict[str, Any]) -> str:
    """Format a subscription in one line."""
    waiting = "" if info["is_taken"] else f", {counted(info['waiting'], 'event')} waiting"
    dropped = f", {info['dropped']:,} dropped" if info["dropped"] else ""
    return f"{info['subscription']}  {info['predicate']}  {info['state']}{waiting}{dropped}"
