"""Experiences: what is kept of what happened, who may read it, how far it is to be trusted."""
