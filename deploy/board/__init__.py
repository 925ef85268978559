"""FATE-Board: our components' descriptions in its dag/ folder."""
