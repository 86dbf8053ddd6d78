"""What is learned of tasks: cases by what they are worth, playbooks of what helped.

The ways in are `cases` and `playbooks`; nothing of what they keep is read by others.
"""
