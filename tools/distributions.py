"""Builds the wheel and the sdist of a checkout, with the build backend that is installed."""

import sys
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder


def build(checkout: Path, out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for builder in (SdistBuilder, WheelBuilder):
        made += map(Path, builder(str(checkout)).build(directory=str(out)))
    return made


if __name__ == "__main__":
    for file in build(Path(__file__).resolve().parents[1], Path(sys.argv[1])):
        sys.stdout.write(f"{file}\n")
