"""FATE components of FATE-DP: one folder each, a thin ``component.py`` for FATE beside one file per role."""
