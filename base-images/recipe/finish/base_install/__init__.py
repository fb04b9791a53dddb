"""Install a child's locked packages on top of a base image, without changing the base."""
