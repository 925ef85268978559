"""Where FATE runs: servers, what is changed in FATE, and the doctor."""

FATE_VERSION = "2.2.0"
