"""Frames that are plain reach their streams, and Yamux reads all others as they were sent."""

import struct
from collections.abc import Sequence

import trio
from hypothesis import given
from hypothesis import strategies as st
from libp2p.stream_muxer.yamux import yamux

from smartpubsub.node.transport.plain_frames import PlainFrames

WINDOW_BYTES = 60
OPEN = (1, 3)


class Opened:
    def __init__(self) -> None:
        self.recv_window = WINDOW_BYTES


class Muxer:
    """What there is of Yamux for the frames of open streams."""

    def __init__(self) -> None:
        self.streams = {stream: Opened() for stream in OPEN}
        self.stream_buffers = {stream: bytearray() for stream in OPEN}
        self.stream_events = {stream: trio.Event() for stream in OPEN}


class Pieces:
    """A connection that gives what was sent in pieces, and then ends."""

    def __init__(self, content: bytes, lengths: Sequence[int]) -> None:
        self.content = content
        self.lengths = list(lengths)

    async def read(self) -> bytes:
        length = self.lengths.pop() if self.lengths else len(self.content)
        piece, self.content = self.content[:length], self.content[length:]
        return piece


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    head = struct.pack(yamux.YAMUX_HEADER_FORMAT, 0, kind, flags, stream, len(body))
    return head + body


async def all_of(frames: PlainFrames) -> bytes:
    """What Yamux reads: a head, and the body if it has one."""
    read = b""
    while head := await frames.read(yamux.HEADER_SIZE):
        read += head
        _, kind, _, _, length = struct.unpack(yamux.YAMUX_HEADER_FORMAT, head)
        while kind == yamux.TYPE_DATA and length:
            piece = await frames.read(length)
            read += piece
            length -= len(piece)
    return read


FRAMES = st.tuples(
    st.sampled_from([yamux.TYPE_DATA, yamux.TYPE_DATA, yamux.TYPE_WINDOW_UPDATE]),
    st.sampled_from([0, 0, yamux.FLAG_SYN, yamux.FLAG_FIN]),
    st.sampled_from([*OPEN, 5]),
    st.binary(min_size=1, max_size=20),
)


@given(st.lists(FRAMES, max_size=12), st.lists(st.integers(1, 50), max_size=40))
def test_every_byte_is_read_once_and_in_the_order_of_its_stream(
    sent: list[tuple[int, int, int, bytes]], lengths: list[int]
) -> None:
    # Only data has a body; in other frames the length means something else.
    wire = [
        frame(*one) if one[0] == yamux.TYPE_DATA else frame(*one)[: yamux.HEADER_SIZE]
        for one in sent
    ]

    async def main() -> None:
        muxer = Muxer()
        frames = PlainFrames(muxer, Pieces(b"".join(wire), lengths), WINDOW_BYTES)
        read = await all_of(frames)

        taken = {stream: bytes(buffer) for stream, buffer in muxer.stream_buffers.items()}
        expected = b""
        for (kind, flags, stream, body), written in zip(sent, wire, strict=True):
            is_plain = kind == yamux.TYPE_DATA and not flags and stream in OPEN
            if is_plain and not read.startswith(expected + written):
                assert taken[stream].startswith(body)
                taken[stream] = taken[stream][len(body) :]
            else:
                expected += written
        assert read == expected
        assert not any(taken.values())
        for stream, buffer in muxer.stream_buffers.items():
            assert len(buffer) + muxer.streams[stream].recv_window == WINDOW_BYTES
            assert muxer.stream_events[stream].is_set() == bool(buffer)

    trio.run(main)


def test_what_is_beyond_the_window_is_for_yamux_to_judge() -> None:
    async def main() -> None:
        muxer = Muxer()
        frames = [frame(yamux.TYPE_DATA, 0, 1, bytes(WINDOW_BYTES // 2))] * 3
        read = await all_of(PlainFrames(muxer, Pieces(b"".join(frames), []), WINDOW_BYTES))

        assert read == frames[-1]
        assert len(muxer.stream_buffers[1]) == WINDOW_BYTES

    trio.run(main)
