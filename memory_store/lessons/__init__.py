"""What is learned of experiences: cases by their worth, playbooks, answers made beforehand."""
