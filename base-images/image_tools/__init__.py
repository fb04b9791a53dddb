"""Tools of the base images: catalogue, locks, build plan, size, push, promotion and records."""
