"""The scenario small goes through networks of one, two, three and five nodes."""

import pytest

from smartpubsub.workloads import ScenarioOptions, WorkloadError, scenario
from smartpubsub.workloads.actions import CrashNode, LeaveNode, Publish, RestartNode, Workload
from tests.workloads.said import keys


def made(nodes: int = 5, faults: int = 1) -> Workload:
    return scenario("small", keys=keys(nodes), seed=1, options=ScenarioOptions(faults=faults))


def sizes(workload: Workload) -> list[int]:
    """How many nodes are up after each change, in phases in which there is one."""
    up, found = len(workload.names), []
    for phase in workload.phases:
        up -= sum(isinstance(action, LeaveNode | CrashNode) for action in phase)
        up += sum(isinstance(action, RestartNode) for action in phase)
        found.append(up)
    return found


def test_networks_of_every_size_occur_and_all_nodes_are_back_at_the_end() -> None:
    found = sizes(made())

    assert {1, 2, 3, 4, 5} == set(found)
    assert found[-1] == 5


def test_only_nodes_that_are_up_publish_and_all_of_them_do() -> None:
    down: set[int] = set()
    for phase in made().phases:
        for action in phase:
            if isinstance(action, LeaveNode | CrashNode):
                down.add(action.node)
            elif isinstance(action, RestartNode):
                down.remove(action.node)
        publishers = {action.node for action in phase if isinstance(action, Publish)}
        assert publishers in (set(range(5)) - down, set())


def test_without_faults_nodes_only_leave() -> None:
    kinds = {type(action) for action in made(faults=0).actions()}

    assert LeaveNode in kinds
    assert CrashNode not in kinds
    assert CrashNode in {type(action) for action in made().actions()}


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_smaller_networks_go_through_it_too(nodes: int) -> None:
    workload = made(nodes)

    assert min(sizes(workload)) >= 1
    assert any(isinstance(action, LeaveNode) for action in workload.actions())


def test_the_work_grows_with_the_square_of_the_nodes() -> None:
    def deliveries(nodes: int) -> int:
        """About how many there are: all nodes subscribe to all events."""
        events = [action for action in made(nodes).actions() if isinstance(action, Publish)]
        return nodes * len(events)

    assert deliveries(80) < 5 * deliveries(40)


def test_in_a_large_network_the_node_that_has_returned_publishes() -> None:
    for phase in made(12).phases:
        returned = [action.node for action in phase if isinstance(action, RestartNode)]
        publishers = [action.node for action in phase if isinstance(action, Publish)]
        assert set(returned) <= set(publishers)


def test_what_it_decides_itself_cannot_be_chosen() -> None:
    with pytest.raises(WorkloadError, match="leave out --events"):
        scenario("small", keys=keys(5), seed=1, options=ScenarioOptions(events=7))
