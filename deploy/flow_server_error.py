"""The one exception of this folder."""


class FlowServerError(Exception):
    """The embedded FATE-Flow cannot do what was asked; the message is one sentence for the user."""
