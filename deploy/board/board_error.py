"""The one exception of this folder."""
from fate_dp.deploy.flow_server_error import FlowServerError


class BoardError(FlowServerError):
    """The board's folder cannot be used as asked; the message is one sentence for the operator."""
