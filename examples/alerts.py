"""Alerts on asyncio: a handler is called for each measurement that is out of range.

    python examples/alerts.py --data ~/.smartpubsub
    python examples/alerts.py --url http://127.0.0.1:8080 --count 3

Elsewhere: smartpubsub pub 'greenhouse/temp=38' 'bed 7'
"""

import argparse
import asyncio

import smartpubsub
from smartpubsub import Event

TOO_HOT = "greenhouse/temp[35,]"
TOO_DRY = "greenhouse/moisture[,20]"


async def watch(data: str | None, url: str | None, token: str | None, count: int | None) -> None:
    """Print alerts until there were `count` of them."""
    alerts: asyncio.Queue[str] = asyncio.Queue()
    async with smartpubsub.connect(data=data, url=url, token=token) as node:

        @node.on(TOO_HOT)
        async def on_heat(event: Event) -> None:
            await alerts.put(f"too hot: {event.predicate} {event.text()}")

        @node.on(TOO_DRY)
        async def on_drought(event: Event) -> None:
            await alerts.put(f"too dry: {event.predicate} {event.text()}")

        while len(await node.subscriptions()) < 2:  # Until both are in force.
            await asyncio.sleep(0.05)
        print("watching", flush=True)
        shown = 0
        while shown != count:
            print(await alerts.get(), flush=True)
            shown += 1


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", help="the data folder of a node on this machine")
    options.add_argument("--url", help="the gateway of a node")
    options.add_argument("--token", help="the token for the gateway")
    options.add_argument("--count", type=int, help="end after this many alerts")
    asyncio.run(watch(**vars(options.parse_args())))


if __name__ == "__main__":
    main()
