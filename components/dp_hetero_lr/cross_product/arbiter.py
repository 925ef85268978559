"""The arbiter's part where the cross product trains: it logs how far training is. It receives no ciphertext and no sum."""
import logging

from ..convergence import GOES_ON, refuse_divergence

logger = logging.getLogger(__name__)


def serve_training(ctx, settings, terms: dict) -> int:
    """Follow the guest's word after every epoch; returns the epochs that ran."""
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(settings.epochs):
        state = epoch_ctx.guest.get("training_state")
        refuse_divergence(state)
        logger.info("epoch %d of at most %d: %s", epoch + 1, settings.epochs, state)
        if state != GOES_ON:
            break
    return epoch + 1
