"""Names, numerals, ranges and predicates of every kind, for property tests."""

from decimal import Context, Decimal
from fractions import Fraction

from hypothesis import strategies as st

from tests.predicates.said import Bounds, Said

ODD_NAMES = [
    "são paulo/sp",
    "sa\u0303o",
    "서울",
    "हिन्दी",
    "٣",
    "½",
    "%41",
    "100%",
    "a=b[1,2]",
    "T",
    "R",
    "and",
    "-",
    "~",
    ".",
    "\0",
    "\n",
    "\u00a0",
    "\u200d",
    "\U0010ffff",
    '"',
    "'",
]
EXTREMES = [
    "0",
    "-0",
    "0.1",
    "+.5",
    "1.",
    "007",
    "1e-300",
    "5e-324",
    "4.9e-324",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1e400",
    "-1e400",
    "1e-400",
    "-1e-400",
    "9007199254740992",
    "9007199254740993",
    str(10**100 + 1),
    "3.14159265358979323846264338327950288",
]
_WIDE = Context(prec=400)


def names() -> st.SearchStrategy[str]:
    letters = st.characters(exclude_categories=["Cs"])
    return st.text(letters, min_size=1, max_size=8) | st.sampled_from(ODD_NAMES)


def numerals() -> st.SearchStrategy[str]:
    """Numerals that a few hundred digits suffice to write in full."""
    return st.one_of(
        st.integers(-20, 20).map(str),
        st.decimals(-1000, 1000, places=2).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.floats(-1e-307, 1e-307).map(repr),
        st.integers(-(10**120), 10**120).map(str),
        st.builds("{}.{}".format, st.integers(-9, 9), st.integers(10**20, 10**60)),
        st.builds("{}e{}".format, st.integers(-(10**20), 10**20), st.integers(-350, 350)),
        st.sampled_from(EXTREMES),
    )


def long_numerals() -> st.SearchStrategy[str]:
    """Numerals of about as many digits, and as far from the point, as is allowed."""
    digits = st.builds(lambda digit, count: digit * count, st.sampled_from("19"), counts())
    return st.builds("{}e{}".format, digits, st.integers(-1010, 30) | st.integers(-5000, 5000))


def counts() -> st.SearchStrategy[int]:
    return st.integers(975, 1000)


def around(numeral: str) -> list[str]:
    """A numeral and its neighbours on both sides, much closer than floats are."""
    number = Decimal(numeral)
    step = Decimal((0, (1,), number.adjusted() - 40))
    return [str(_WIDE.subtract(number, step)), numeral, str(_WIDE.add(number, step))]


def neighbours() -> st.SearchStrategy[tuple[str, str]]:
    """Two numerals that are the same number, or nearly."""
    return (
        numerals()
        .map(around)
        .flatmap(lambda close: st.tuples(st.sampled_from(close), st.sampled_from(close)))
    )


def bounds(values: st.SearchStrategy[str]) -> st.SearchStrategy[Bounds]:
    return st.one_of(
        closed_bounds(values),
        values.map(lambda numeral: (numeral, numeral)),
        values.map(lambda numeral: (numeral, None)),
        values.map(lambda numeral: (None, numeral)),
        st.just((None, None)),
    )


def closed_bounds(values: st.SearchStrategy[str]) -> st.SearchStrategy[Bounds]:
    return st.tuples(values, values).map(in_order)


def in_order(pair: tuple[str, str]) -> Bounds:
    lo, hi = sorted(pair, key=Fraction)
    return lo, hi


def said(
    some_names: st.SearchStrategy[str] | None = None,
    some_bounds: st.SearchStrategy[Bounds] | None = None,
    max_size: int = 5,
) -> st.SearchStrategy[Said]:
    keys = names() if some_names is None else some_names
    ranges = bounds(numerals()) if some_bounds is None else some_bounds
    return st.dictionaries(keys, st.none() | ranges, min_size=1, max_size=max_size)


@st.composite
def kindred(draw: st.DrawFn, count: int) -> list[Said]:
    """Predicates that share names and bounds, so that they have to do with each other."""
    shared_names = draw(st.lists(names(), min_size=1, max_size=3, unique=True))
    shared = draw(st.lists(numerals(), min_size=1, max_size=2))
    close = st.sampled_from([near for numeral in shared for near in around(numeral)])
    one = said(st.sampled_from(shared_names), bounds(close), max_size=len(shared_names))
    return draw(st.lists(one, min_size=count, max_size=count))


@st.composite
def narrower(draw: st.DrawFn, wide: Said) -> Said:
    """What is as narrow as the given, or narrower: inner bounds, more attributes."""
    narrow: Said = dict(draw(said(max_size=2)))
    for name, outer in wide.items():
        inner = st.none() | bounds(numerals()) if outer is None else inner_bounds(outer)
        narrow[name] = draw(inner)
    return narrow


def inner_bounds(outer: Bounds) -> st.SearchStrategy[Bounds]:
    ends = [end for end in outer if end is not None]
    inside = [near for end in ends for near in around(end) if is_within(near, outer)]
    values = st.sampled_from(inside) if inside else numerals()
    return closed_bounds(values) | st.just(outer)


def is_within(numeral: str, outer: Bounds) -> bool:
    lo, hi = outer
    number = Fraction(numeral)
    return (lo is None or Fraction(lo) <= number) and (hi is None or number <= Fraction(hi))
