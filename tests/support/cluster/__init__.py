"""A multi-party FATE cluster on one host: a FATE-Flow server for each party, a message broker, a command router."""
