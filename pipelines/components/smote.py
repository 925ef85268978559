"""Client class of the smote component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.smote import settings

from .definition import check_given, definition_path


class Smote(Component):
    """Over-sampling of each party's own training rows; what is computed from them protects no record.

    For the stage train only: a deployed pipeline leaves it out, and `run_job` refuses to split or test on its output.

    Args:
        dataset: ``namespace/name`` of the table in the ledger, the same at all parties unless given for each of them:
            ``task.guest.task_parameters(dataset=...)``, ``task.hosts[0].task_parameters(dataset=...)``.
        method: smotenc unless given; smotenc_parents, whose categories come from the two parents; or smote, which
            interpolates one-hot columns as well.
        neighbours: nearest records of the class to interpolate with, 5 unless given.
        groups: lists of one-hot column names; none unless given, then all columns are numeric.
        seed: start of the draws, known to all parties; the operating system's entropy unless given.
    """

    yaml_define_path = definition_path("smote")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        dataset: str = PlaceHolder(),
        method: str = PlaceHolder(),
        neighbours: int = PlaceHolder(),
        groups: list = PlaceHolder(),
        seed: int = PlaceHolder(),
        train_data: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        names = ("dataset", "method", "neighbours", "groups", "seed")
        check_given({name: getattr(settings, name) for name in names}, inputs)
        self._name = _name
        self.runtime_parties = runtime_parties
        self.dataset = dataset
        self.method = method
        self.neighbours = neighbours
        self.groups = groups
        self.seed = seed
        self.train_data = train_data
