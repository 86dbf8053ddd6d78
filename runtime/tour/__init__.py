"""The tour: the main job on real parts, each step measured."""
