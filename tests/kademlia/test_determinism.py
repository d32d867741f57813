"""The same events give the same effects, in any process."""

import hashlib
import os
import subprocess
import sys
from functools import partial

from smartpubsub.kademlia.queries import Got, Put
from smartpubsub.kademlia.settings import HOUR, Settings
from tests.kademlia.wired import Wired, content_id
from tests.tidy.source import CHECKOUT


def digest_of_all_effects() -> str:
    network = Wired(8, Settings(k=3, paths=2)).joined()
    cid = content_id(b"value")
    network.ask(2, partial(network.cores[2].put, cid, b"value"), Put)
    network.dead.add(5)
    network.ask(6, partial(network.cores[6].get, cid), Got)
    network.run(2 * HOUR)
    return hashlib.sha256(repr(network.effects).encode()).hexdigest()


def test_the_same_events_give_the_same_effects_whatever_the_hash_seed() -> None:
    program = "from tests.kademlia import test_determinism as t; print(t.digest_of_all_effects())"

    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert digests == {digest_of_all_effects()}
