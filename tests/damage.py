"""Bytes that have come to harm on their way, for decoders that have to bear it."""

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes of which some were changed, cut off or inserted."""
    mutated = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(mutated) - 1)))
        match draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                mutated[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del mutated[place:]
            case "insert":
                mutated[place:place] = draw(st.binary(max_size=3))
    return bytes(mutated)
