"""What is done for the memory while nobody asks anything of it, and what that saves.

The ways in are `sleeping`, which works, and `prepared`, which answers by what was made.
"""
