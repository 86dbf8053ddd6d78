"""Guards on the path of a call that need no model: what may flow where."""
