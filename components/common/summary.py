"""What a task says about itself: a table on FATE-Board, and the same facts as one line of its log."""
import logging

logger = logging.getLogger(__name__)

SMALLEST_NUMBER_SHOWN = 5e-7
"""The board rounds to six digits after the point: a smaller number would be shown as 0."""


def show_summary(ctx, facts: dict) -> None:
    """Args:
        facts: flat {name: text or number}.
    """
    readable = {name: _readable(value) for name, value in facts.items()}
    logger.info("summary: %s", "; ".join(f"{name}: {value}" for name, value in readable.items()))
    ctx.metrics.log_metrics(readable, "summary")


def _readable(value):
    small = isinstance(value, float) and 0 < abs(value) < SMALLEST_NUMBER_SHOWN
    return f"{value:g}" if small else value
