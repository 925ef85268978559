"""Refusal of modules whose gradient of one record depends on other records, or on a generator that others share."""
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from fate_dp.components.dp_homo_nn.models.spec import InvalidModel

MIXING = (nn.modules.batchnorm._BatchNorm, nn.CrossMapLRN2d)
RANDOM = (_DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def check_independent(module):
    """Return ``module``; raise ``InvalidModel`` with one sentence if one of its layers is of a refused kind.

    Statistics of a batch mix its records: then no clip bounds what one record changes. Layers that draw random numbers
    read torch's global generator, which FATE seeds alike at every party. A module that mixes records in a way of its
    own is caught by ``RecordGradients``, which compares a record alone with the same record in company.
    """
    if not any(True for _ in module.parameters()):
        raise InvalidModel("The module has no parameters, so there is nothing to train.")
    for name, layer in module.named_modules():
        named = f"Layer {name} ({type(layer).__name__})" if name else f"The module ({type(layer).__name__})"
        if isinstance(layer, MIXING) or (isinstance(layer, _NormBase) and layer.track_running_stats):
            raise InvalidModel(
                f"{named} computes over the batch, so one record's gradient depends on the others; use GroupNorm or "
                "LayerNorm."
            )
        if isinstance(layer, RANDOM) or getattr(layer, "dropout", 0):
            raise InvalidModel(
                f"{named} draws from torch's global generator, which is seeded alike at every party; leave it out."
            )
    return module
