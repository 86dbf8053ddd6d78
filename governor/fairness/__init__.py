"""Who goes next when more is wanted than there is."""
