"""Measuring a learned router on prompts of which it is known what each tier makes of them."""
