"""The ledger: the resources that a node spends on others, by class and by user.

Each class of things (values, records, history, filters) has an account with a limit for all users
together and one for each user. A user is the peer or the publisher that the node keeps something
for. A component refuses and counts what exceeds a limit; it raises no error. To make room, it
evicts something of the user that has most.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

User = bytes
"""A peer id; `NO_USER` for what no peer has asked for."""

NO_USER: User = b""
USER_SHARE = 8
"""By default, one user may have the size of an account divided by this."""
_STALE_MIN = 64


class AccountState(NamedTuple):
    """The state of an account."""

    name: str
    size: int
    size_max: int
    users: int
    largest: int
    """The size that the largest user has."""
    user_size_max: int
    refused: int
    evicted: int


class Account:
    """One class of things that a node keeps for others."""

    def __init__(self, name: str, size_max: int, user_size_max: int) -> None:
        self.name = name
        self.size_max = size_max
        self.user_size_max = user_size_max
        self.size = 0
        self.refused = 0
        """How often something was refused."""
        self.evicted = 0
        """How often something made room before its time."""
        self._sizes: dict[User, int] = {}
        self._largest: list[tuple[int, User]] | None = None
        """A heap of users, the largest first, with stale entries of users whose size has changed.

        None until a caller asks for the largest user.
        """

    def state(self) -> AccountState:
        """The sizes now, and the counts of refusals and evictions since the start."""
        user = self.largest()
        return AccountState(
            self.name,
            self.size,
            self.size_max,
            self.user_count,
            0 if user is None else self.size_of(user),
            self.user_size_max,
            self.refused,
            self.evicted,
        )

    @property
    def user_count(self) -> int:
        """The number of users."""
        return len(self._sizes)

    def size_of(self, user: User) -> int:
        """The size that a user has."""
        return self._sizes.get(user, 0)

    def has_room_for(self, user: User, size: int) -> bool:
        """Whether a user's own limit allows so much more; other users may have to make room."""
        room = self.user_size_max - self._sizes.get(user, 0)
        return size <= self.size_max and size <= room

    def fits(self, user: User, size: int) -> bool:
        """Whether a user may have so much more while other users keep what they have."""
        return self.size + size <= self.size_max and self.has_room_for(user, size)

    @property
    def excess(self) -> int:
        """The size beyond the limit of all users together."""
        return max(0, self.size - self.size_max)

    def refuse(self) -> None:
        """Count something that was refused."""
        self.refused += 1

    def change(self, user: User, difference: int) -> None:
        """Change the size that a user has."""
        sizes = self._sizes
        size = sizes.get(user, 0) + difference
        self.size += difference
        if size:
            sizes[user] = size
        else:
            sizes.pop(user, None)
        if self._largest is not None:
            heappush(self._largest, (-size, user))
            if len(self._largest) > _STALE_MIN + 2 * len(self._sizes):
                self._largest = None

    def largest(self) -> User | None:
        """The user that has most; None if there are no users."""
        if self._largest is None:
            self._largest = [(-size, user) for user, size in self._sizes.items()]
            heapify(self._largest)
        while self._largest:
            size, user = self._largest[0]
            if self._sizes.get(user) == -size:
                return user
            heappop(self._largest)
        return None

    def check(self) -> None:
        """Assert the invariants: the total is that of all users."""
        assert self.size == sum(self._sizes.values())
        assert all(size > 0 for size in self._sizes.values())


class Ledger:
    """All accounts of a node."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def open(self, name: str, size_max: int, user_size_max: int | None = None) -> Account:
        """Open an account; one user may have an eighth of it unless another limit is given."""
        share = size_max // USER_SHARE if user_size_max is None else user_size_max
        account = self._accounts[name] = Account(name, size_max, share)
        return account
