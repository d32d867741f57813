"""Makes sure that the checkout's .venv is ready; returns at once if none of its inputs changed."""

import sys
from pathlib import Path

import fingerprint
import marker
import problems

CHECKOUT = Path(__file__).resolve().parents[1]
INTERRUPTED = 130
NATIVE_LATER = "--native-later"


def main() -> int:
    try:
        make_ready(CHECKOUT)
    except KeyboardInterrupt:
        say("set-up interrupted; run again to repair")
        return INTERRUPTED
    except problems.SetupProblemError as problem:
        say(str(problem))
        return 1
    except OSError as error:
        say(str(problems.from_os_error(error)))
        return 1
    return 0


def make_ready(checkout: Path) -> None:
    wanted = fingerprint.take(checkout)
    if marker.read(checkout) != wanted:
        # Only a set-up needs this import; otherwise every command in bin/ would wait for it.
        import preparation

        preparation.prepare(checkout, wanted, say, native_later=NATIVE_LATER in sys.argv)


def say(line: str) -> None:
    sys.stderr.write(f"smartpubsub: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
