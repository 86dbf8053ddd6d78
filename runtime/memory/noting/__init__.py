"""What is kept beside the answers, now and then, so that no answer waits for it.

The ways in are `choices` and `uses`, one for each thing that is noted.
"""
