"""Client class of the align component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.align import settings

from .definition import check_given, definition_path


class Align(Component):
    """The records of the guest and one host, joined by match id as additive shares; nobody learns which ids matched.

    Values are fixed-point numbers below 16: standardise features before. The table of shares is for ``share_lr``.

    Args:
        hide_size: true, or a mapping with ``epsilon`` (1), ``delta`` (1e-8) and ``pool``: a secret number of dummies
            hides how many ids matched, charged to the ledger of each party. Otherwise both learn the number.
        key_length: bits of the Paillier keys, 2048 unless given.
        label_source: ``namespace/name/column`` of labels that the guest's operator declared public; flips that
            label_flip released are found without it.
        input_data: output of a reader, or of ``label_flip``, at both parties.
    """

    yaml_define_path = definition_path("align")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        hide_size: dict = PlaceHolder(),
        key_length: int = PlaceHolder(),
        label_source: str = PlaceHolder(),
        input_data: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        names = ("hide_size", "key_length", "label_source")
        check_given({name: getattr(settings, name) for name in names}, inputs)
        self._name = _name
        self.runtime_parties = runtime_parties
        self.hide_size = hide_size
        self.key_length = key_length
        self.label_source = label_source
        self.input_data = input_data
