"""Training that can be stopped at any step: the owner writes a Task, in the words of its framework."""
