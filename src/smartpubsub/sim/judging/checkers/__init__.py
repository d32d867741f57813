"""The invariants, each with a check that can fail.

1. After the network is quiet, every live subscriber has every event that it is owed.
2. No application ever gets an event that its predicate does not match.
3. To the application exactly once; across a restart at least once, and under the same id.
4. An acknowledged event survives the crash of the node that acknowledged it.
5. A publisher's events come to a subscription in the publisher's order while nothing fails.
6. A summarised set of filters matches exactly what its members match.
7. An unsubscribe takes effect within a bound, and a lapsed subscription within two refreshes.
8. Memory is bounded, and a limit refuses before the acknowledgement, never after.
9. After a split heals, delivery is whole again within one refresh cycle.
10. The same seed gives the same trace.
11. After every input a node's state meets the protocol's own invariants.
"""

from smartpubsub.sim.judging.checkers.determinism import check_same_trace
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.suite import Findings, check_all
from smartpubsub.sim.judging.checkers.violation import Violation

__all__ = ["Facts", "Findings", "Violation", "check_all", "check_same_trace"]
