"""The loss of an epoch as the guest keeps and shows it."""
import logging

from .model import PartyModel

logger = logging.getLogger(__name__)


def note_loss(ctx, model: PartyModel, epoch: int, loss: float) -> None:
    """Into the model and the log and, but for folds, on FATE-Board, which draws one series for a task.

    Args:
        ctx: of the epoch.
    """
    model.losses.append(loss)
    logger.info("epoch %d of at most %d: loss %.6f", epoch + 1, model.settings.epochs, loss)
    if not model.of_fold:
        ctx.metrics.log_loss("loss", loss)
