"""Pictures of a class that the attacker never had: a generator trained against the shared model, and model inversion.

Both find what is *typical* of a class, by asking a model what it takes for that class; neither finds a single record.

- `GeneratingParty`: an active attack by a party while the model is trained.
- `class_representative`: a passive one on the model that was released.

`likeness` compares what they find with the mean of the class; whether it is recognised, a classifier decides that was
trained on other records of the same kind.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fate_dp.components.dp_homo_nn.models.spec import load_flat
from fate_dp.privacy.validation import InvalidArgument, whole

from .gradient_inversion import total_variation
from .released import ReleasedModel

Array = NDArray[np.float64]
Pictures = NDArray[np.float32]
SIDE = 28
LATENT, CHANNELS = 32, 32


def picture_generator(seed: int) -> nn.Sequential:
    """From normal noise (n, 32) to flat grey pictures (n, 784) from 0 to 1: two convolutions, after [Hitaj2017], smaller."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        last = nn.Conv2d(CHANNELS // 2, 1, 5, padding=2)
        generator = nn.Sequential(
            nn.Linear(LATENT, CHANNELS * (SIDE // 4) ** 2),
            nn.ReLU(),
            nn.Unflatten(1, (CHANNELS, SIDE // 4, SIDE // 4)),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(CHANNELS, CHANNELS // 2, 5, padding=2),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            last,
            nn.Sigmoid(),
            nn.Flatten(),
        )
    with torch.no_grad():
        # Most of a digit's picture is black.
        assert last.bias is not None
        last.bias.fill_(-2.0)
    return generator


def classes_of(module: nn.Module) -> int:
    """Number of outputs of a model of flat 28 x 28 pictures; another model is refused."""
    try:
        with torch.no_grad():
            return int(module(torch.zeros(1, SIDE**2)).shape[1])
    except (RuntimeError, IndexError) as error:
        raise InvalidArgument(
            f"The attack needs a model of {SIDE**2} pixels, flat; this one refuses them: {error}"
        ) from None


@dataclass(frozen=True)
class GeneratorOptions:
    """How a generator is trained: ``steps`` of Adam at ``rate`` after each round, on ``batch`` pictures each.

    Of its pictures ``injected`` are added to the party's own records in every round, and the last ``kept`` of them stay.
    """

    steps: int = 4
    rate: float = 2e-3
    batch: int = 32
    injected: int = 5
    kept: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "injected", "kept"):
            whole(name, getattr(self, name), 1)


class GeneratingParty:
    """A party that trains a generator of a class that it has no record of, and makes the others help it.

    *Paper:* B. Hitaj, G. Ateniese, F. Perez-Cruz, "Deep models under the GAN: information leakage from collaborative deep
    learning", CCS 2017 [Hitaj2017]. After each round the generator is moved towards pictures that the shared model takes for
    ``target``. The party offers its pictures as its own records of the class ``claimed``, which nobody else has; so the model
    learns to tell them from the honest parties' ones, and shows the generator what was still wrong.

    *Threat model:* a malicious party: it sees the model in every round, knows its layers, and its records are made up. It
    keeps to the protocol otherwise: what it sends is clipped and summed like all others' messages. It knows no record of the
    target class. *Cost:* ``steps`` gradients through the model and the generator in each round.

    *What it cannot do:* it finds what the class has in common, and no single record, so no epsilon for records promises that it
    finds nothing: it fails where the noise hides the class itself. Where a party holds a class alone, what is common to the
    class is that party's secret, for which there is the unit client. Pictures become better and worse from round to round, and
    the party does not know the best. Here it asks models of all rounds so far, one at a time, which steadies it; the paper asks
    the last one.
    """

    def __init__(self, module: nn.Module, target: int, claimed: int, options: GeneratorOptions | None = None) -> None:
        self.options = options or GeneratorOptions()
        self.target, self.claimed = whole("target", target, 0), whole("claimed", claimed, 0)
        if target == claimed:
            raise InvalidArgument.of("claimed", claimed, "another class than the target")
        self._module = deepcopy(module).eval()
        if classes_of(self._module) <= max(target, claimed):
            raise InvalidArgument(
                f"target is {target} and claimed {claimed}, but the model has {classes_of(self._module)} outputs."
            )
        self._stream = torch.Generator().manual_seed(self.options.seed)
        self._generator = picture_generator(self.options.seed)
        self._optimizer = torch.optim.Adam(self._generator.parameters(), self.options.rate, betas=(0.5, 0.999))
        self._seen: list[dict[str, Tensor]] = []
        self._injected = torch.zeros(0, SIDE**2)

    def see(self, weights: Array) -> None:
        """Learn from the weights (d,) after a round, and make new records of one's own."""
        load_flat(self._module, weights)
        self._seen.append({name: part.detach().clone() for name, part in self._module.named_parameters()})
        wanted = torch.full((self.options.batch,), self.target)
        for _ in range(self.options.steps):
            asked = self._seen[int(torch.randint(len(self._seen), (1,), generator=self._stream))]
            outputs = torch.func.functional_call(self._module, asked, (self._made(self.options.batch),))
            loss = functional.cross_entropy(outputs, wanted)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        with torch.no_grad():
            new = self._made(self.options.injected)
        self._injected = torch.cat([self._injected, new])[-self.options.kept :]

    def records(self) -> tuple[Pictures, NDArray[np.int64]]:
        """What the party offers as its own in the next round: pictures float32 (n, 784), and the class it claims."""
        return self._injected.numpy(), np.full(len(self._injected), self.claimed)

    def pictures(self, count: int) -> Pictures:
        """What the generator makes now, float32 (count, 784)."""
        with torch.no_grad():
            made: Pictures = self._made(count).numpy()
        return made

    def _made(self, count: int) -> Tensor:
        made: Tensor = self._generator(torch.randn(count, LATENT, generator=self._stream))
        return made


@dataclass(frozen=True)
class InversionOptions:
    """Steps of Adam at ``rate``, from grey; ``variation`` weighs how much neighbouring pixels differ."""

    steps: int = 150
    rate: float = 0.05
    variation: float = 0.0


def class_representative(model: ReleasedModel, target: int, options: InversionOptions | None = None) -> Pictures:
    """The picture that a released model is surest of as a class, float32 (784,) from 0 to 1.

    *Paper:* M. Fredrikson, S. Jha, T. Ristenpart, "Model inversion attacks that exploit confidence information and basic
    countermeasures", CCS 2015 [Fredrikson2015], algorithm 1: descent on the loss of the class by the picture. Total
    variation, where it is asked for, takes the place of the paper's denoising.

    *Threat model:* whoever gets the model, with its weights; no record, and no message of the training. *Cost:* one gradient
    for each step.

    *What it cannot do:* it shows what tells a class from others, which looks like a member of it where the class is one
    person's face, as in the paper, and the model simple. Deeper models are sure of pictures that look like nothing.
    """
    options, classes = options or InversionOptions(), classes_of(model.module)
    if whole("target", target, 0) >= classes:
        raise InvalidArgument.of("target", target, f"below the number of the model's outputs, {classes}")
    pixels = torch.full((1, SIDE**2), 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([pixels], options.rate)
    for _ in range(options.steps):
        loss = functional.cross_entropy(model.module(pixels), torch.tensor([target]))
        loss = loss + options.variation * total_variation(pixels.view(1, 1, SIDE, SIDE))
        (pixels.grad,) = torch.autograd.grad(loss, [pixels])
        optimizer.step()
        with torch.no_grad():
            pixels.clamp_(0.0, 1.0)
    found: Pictures = pixels.detach().numpy()[0]
    return found


def likeness(pictures: Pictures, mean: Array) -> float:
    """Mean correlation of pictures (n, m) with the mean picture (m,) of a class, from -1 to 1; 0 for a flat one."""
    centred = np.asarray(pictures, dtype=np.float64) - np.mean(pictures, axis=1, keepdims=True)
    truth = mean - np.mean(mean)
    lengths = np.linalg.norm(centred, axis=1) * np.linalg.norm(truth)
    return float(np.mean(np.divide(centred @ truth, lengths, out=np.zeros(len(centred)), where=lengths > 1e-9)))
