"""A container on FATE's standalone image: its configuration when it starts, and its health."""
