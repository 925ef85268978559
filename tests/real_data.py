"""Where real data lies on this machine; tests that want it skip where it does not."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("FATE_DP_DATA", Path(__file__).parents[2] / "shared" / "data"))
LENDING_CLUB = FOLDER / "lending_club.csv.gz"

needs_lending_club = pytest.mark.skipif(not LENDING_CLUB.is_file(), reason=f"{LENDING_CLUB} is not on this machine")
