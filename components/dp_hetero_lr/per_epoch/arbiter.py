"""The arbiter's part of solver per_epoch: makes the key pair and decrypts masked sums. It never sees an unmasked one."""
from fate_dp.components.common.parties import data_peers
from fate_dp.crypto.masked_packing import decrypt_masked, slots_per_ciphertext
from fate_dp.crypto.paillier import PublicKey, generate_keypair

from ..convergence import GOES_ON
from ..settings import TrainSettings


def serve_training(ctx, settings: TrainSettings, terms: dict) -> int:
    """Decrypt for all data parties until the guest says that training has ended; returns the epochs that ran."""
    public_key, private_key = generate_keypair(settings.he_param["key_length"])
    parties = data_peers(ctx)
    for party in parties:
        party.put("public_key", private_key.to_wire())
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(settings.epochs):
        for batch_ctx, _ in epoch_ctx.on_batches.ctxs_zip(terms["batches"]):
            for party, features in zip(data_peers(batch_ctx), terms["features"]):
                masked = party.get("masked")
                # The guest's sums are its gradient and the loss.
                refuse_more_than(features + (party.role == "guest"), masked, public_key, party.name)
                party.put("decrypted", decrypt_masked(masked, private_key))
        if epoch_ctx.guest.get("training_state") != GOES_ON:
            break
    return epoch + 1


def refuse_more_than(sums: int, masked: list, public_key: PublicKey, sender: str) -> None:
    """A party gets as many ciphertexts decrypted as its gradient needs: others' scores must not come along."""
    needed = -(-sums // slots_per_ciphertext(public_key))
    if len(masked) != needed:
        raise ValueError(f"{sender} sent {len(masked)} ciphertexts to decrypt; its {sums} sums of a batch need {needed}.")
