"""The one exception of this folder."""


class ConfigurationError(Exception):
    """The container's environment does not say what is needed; the message is one sentence."""
