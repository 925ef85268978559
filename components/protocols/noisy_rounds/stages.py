"""The stages of a component that trains in noisy rounds over parties with the same columns, as FATE reads them."""

from importlib import import_module
from typing import Any

from fate.components.core import ARBITER, GUEST, HOST, Component, Role, cpn

from ...common.entry_point import party_stage
from ...common.federation import Context
from ...common.wire.channel import with_plain_messages
from ...common.wire.kinds import Messages


def add_stages(component: Component, messages: Messages, settings: type) -> None:
    """Stages train and predict, by the modules ``train`` and ``model`` of the component's folder, loaded when one runs."""
    folder = component.callback.__module__.rpartition(".")[0]

    def train(
        ctx: Context,
        role: Role,
        train_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
        given: dict[str, Any],
        train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
        output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
    ) -> None:
        train_party = import_module(f"{folder}.train").train_party
        document, scored = train_party(ctx, given, None if train_data is None else train_data.read())
        output_model.write(document, metadata={})
        if scored is not None:
            train_output_data.write(scored)

    def predict(
        ctx: Context,
        role: Role,
        test_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
        input_model: cpn.json_model_input(roles=[GUEST, HOST]),
        test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    ) -> None:
        # Every party scores its own rows with a model that all data parties hold; nobody needs another one's help.
        if test_data is not None and not role.is_arbiter:
            predict_party = import_module(f"{folder}.model").predict_party
            test_output_data.write(predict_party(ctx, input_model.read(), test_data.read()))

    # Parameters and refusals are those of the component, which is known by the module of its stages.
    train.__module__ = predict.__module__ = component.callback.__module__
    component.train()(party_stage(messages, unmade={"given": settings})(train))
    component.predict()(with_plain_messages(messages)(predict))
