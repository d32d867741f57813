"""A fleet of sensors: many threads publish, and a reader that is away loses nothing.

    python examples/sensor_fleet.py --data ~/.smartpubsub --sensors 20 --rounds 3

Each measurement has a key, so a sensor that does not know whether a publication has worked repeats
it, and it is still one event. The subscription is kept: its events wait on the node's disk.
"""

import argparse
import random
from concurrent.futures import ThreadPoolExecutor

import smartpubsub
from smartpubsub import BlockingClient

FLEET = "fleet/temp[,]"


def measure(node: BlockingClient, sensor: int, rounds: int) -> None:
    """Publish the measurements of one sensor, each of them twice to be sure."""
    chance = random.Random(sensor)
    for number in range(rounds):
        event = f"fleet/sensor={sensor}/temp={chance.uniform(15, 30):.1f}"
        for _ in range(2):
            node.publish(event, key=f"sensor {sensor} measurement {number}", json={"round": number})


def main() -> None:
    """Publish while no reader is there, then read."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", help="the data folder of a node on this machine")
    options.add_argument("--url", help="the gateway of a node")
    options.add_argument("--sensors", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with smartpubsub.connect(data=given.data, url=given.url) as node:
        with node.subscribe(FLEET, keep=True) as events:
            number = events.number
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda s: measure(node, s, given.rounds), range(given.sensors)))
        hottest = ""
        highest = float("-inf")
        with node.subscribe(FLEET, keep=True) as events:
            count = given.sensors * given.rounds
            for _ in range(count):
                event = events.get(timeout_s=30)
                temp = float(str(event.predicate).rpartition("=")[2])
                if temp > highest:
                    highest, hottest = temp, str(event.predicate)
        print(f"{count} measurements of {given.sensors} sensors; the hottest: {hottest}")
        if number is not None:
            node.unsubscribe(number)


if __name__ == "__main__":
    main()
