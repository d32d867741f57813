"""multistream-select in one round trip.

multistream-select greets first and asks for a protocol after the answer. A dialler that wants one
protocol need not wait in between: it sends the question right after the greeting.
"""

from __future__ import annotations

from collections.abc import Sequence

from libp2p.abc import IMultiselectCommunicator
from libp2p.custom_types import TProtocol
from libp2p.io.abc import ReadWriteCloser
from libp2p.io.exceptions import IOException
from libp2p.protocol_muxer.exceptions import MultiselectCommunicatorError
from libp2p.protocol_muxer.multiselect_client import (
    DEFAULT_NEGOTIATE_TIMEOUT,
    MULTISELECT_PROTOCOL_ID,
    MultiselectClient,
)
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator
from libp2p.utils import encode_delim


class QuickClient(MultiselectClient):
    """The dialler's side, with greeting and question in one write."""

    async def select_one_of(
        self,
        protocols: Sequence[TProtocol],
        communicator: IMultiselectCommunicator,
        negotiate_timeout: int = DEFAULT_NEGOTIATE_TIMEOUT,
    ) -> TProtocol:
        """The first of these protocols that the peer speaks."""
        if len(protocols) == 1 and isinstance(communicator, MultiselectCommunicator):
            communicator = _AtOnce(communicator.read_writer, str(protocols[0]))
        return await super().select_one_of(protocols, communicator, negotiate_timeout)


class _AtOnce(MultiselectCommunicator):
    """Sends the question with the greeting, and nothing when the question is due."""

    def __init__(self, read_writer: ReadWriteCloser, protocol: str) -> None:
        super().__init__(read_writer)
        self._protocol = protocol
        self._has_greeted = False
        self._has_asked = False

    async def write(self, msg_str: str) -> None:
        """Send a message, unless it has been sent with the one before."""
        if not self._has_greeted:
            self._has_greeted = True
            both = (MULTISELECT_PROTOCOL_ID, self._protocol)
            try:
                await self.read_writer.write(b"".join(encode_delim(one.encode()) for one in both))
            except IOException as error:
                raise MultiselectCommunicatorError("the other end is gone") from error
        elif not self._has_asked:
            self._has_asked = True
        else:
            await super().write(msg_str)
