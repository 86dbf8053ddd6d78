"""Everything durable."""
