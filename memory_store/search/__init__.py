"""Finding experiences: what is kept in memory for it can be thrown away and is made anew."""
