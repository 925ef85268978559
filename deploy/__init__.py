"""Where FATE runs: the embedded FATE-Flow server."""
