"""Opacus' side of the private step: one module trained by DP-SGD in one of Opacus' ways to get per-record gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Per-record gradients by hooks, by expanded weights, by functorch; or their norms only and a second backward pass.
MODES = ("hooks", "ew", "functorch", "ghost")
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def opacus_step(module, images, labels, mode, *, clip, noise_multiplier, learning_rate):
    """A function that does one private step on the batch, which lies in memory as it does for ours.

    :param module: a ``torch.nn.Module`` that takes ``images``; it becomes Opacus' own.
    :param mode: one of ``MODES``.
    """
    # An installation for tests or for users does without it.
    from opacus import PrivacyEngine

    loader = DataLoader(TensorDataset(images, labels), batch_size=len(images))
    engine = PrivacyEngine(accountant="rdp", secure_mode=False)
    module, optimizer, *rest = engine.make_private(
        module=module.train(),
        optimizer=torch.optim.SGD(module.parameters(), lr=learning_rate),
        data_loader=loader,
        criterion=nn.CrossEntropyLoss(),
        noise_multiplier=noise_multiplier,
        max_grad_norm=clip,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    # In ghost mode the loss is Opacus' own too, since it does both backward passes.
    criterion = rest[0] if mode == "ghost" else nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        criterion(module(images), labels).backward()
        optimizer.step()

    return step
