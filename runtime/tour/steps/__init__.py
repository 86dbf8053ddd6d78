"""The steps of the tour, by what they show."""
