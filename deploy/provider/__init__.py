"""The plugin as a provider of FATE-Flow: an environment of its own, which jobs choose by configuration."""
