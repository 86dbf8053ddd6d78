"""Which of many tools a model is shown, found by words and by what helped before."""
