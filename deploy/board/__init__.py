"""FATE-Board: our components' descriptions in its dag/ folder, and the rules by which it draws what a task emits."""
