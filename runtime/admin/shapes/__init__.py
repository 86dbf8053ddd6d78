"""The JSON that goes in and out, one module for each kind of thing."""
