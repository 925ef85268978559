"""Where a benchmark's public files are missing, one sentence says so."""

from collections.abc import Callable


def with_files(main: Callable[[], None]) -> None:
    """Run a benchmark's ``main``.

    Raises:
        SystemExit: a file is missing; the sentence names it.
    """
    try:
        main()
    except FileNotFoundError as error:
        raise SystemExit(
            f"There is no file {error.filename}; name its folder in the variable FATE_DP_DATA. "
            "docs/figures.md#data says what it has to be."
        ) from error
