"""Bring the fixes of the template into a repository; needs Copier and nothing else that the runtime needs."""
