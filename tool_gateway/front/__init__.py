"""The protocol surfaces that clients speak to."""
