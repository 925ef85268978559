"""The model of a job at a data party, and what its workers need to build it."""
import json
from functools import lru_cache
from typing import Mapping, NamedTuple, Optional, Tuple

from .models.spec import ModelSpec
from .settings import TrainSettings, module_name


class ModelSource(NamedTuple):
    """What a worker process needs to build the model: text only, so that a process builds it once.

    :param text: the specification as JSON.
    :param import_from: what the operator of this party allows under the model's name, for a model ``module:NAME``.
    :param class_factors: ``TrainSettings.class_factors``.
    """

    text: str
    loss: str
    import_from: Optional[str] = None
    class_factors: Optional[Tuple[float, ...]] = None

    @classmethod
    def of(cls, spec: ModelSpec, loss: str, allowed: Mapping[str, str], class_factors=None) -> "ModelSource":
        text = json.dumps([spec.name, spec.features, spec.classes, spec.params], sort_keys=True)
        return cls(text, loss, allowed.get(module_name(spec.name) or ""), class_factors)

    def spec(self) -> ModelSpec:
        return ModelSpec(*json.loads(self.text))

    def gradients(self):
        """``RecordGradients`` of the model.

        :raises ValueError: the specification is wrong, or the module is not allowed or cannot be imported.
        """
        return _gradients(self)

    def module(self):
        """The torch module, with start weights from the public seed."""
        from .models.registry import build_model

        spec = self.spec()
        return build_model(spec, {} if self.import_from is None else {module_name(spec.name): self.import_from})


def spec_of_job(settings: TrainSettings, features: int) -> ModelSpec:
    """The specification that all parties agree on; ``init_param`` decides the start weights."""
    params = {"seed": settings.init_param["random_state"], **settings.model["params"]}
    return ModelSpec(settings.model["name"], features, settings.classes, params)


@lru_cache(maxsize=2)
def _gradients(source: ModelSource):
    import torch

    from .gradients import RecordGradients

    # A worker is forked from a process whose threads it does not have; waiting for them, it would wait forever.
    torch.set_num_threads(1)
    return RecordGradients(source.module(), source.loss, source.class_factors)
