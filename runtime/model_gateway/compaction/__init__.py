"""Long conversations made shorter before they are sent: what is old gives way to an index."""
