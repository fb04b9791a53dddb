"""Tests of the service that templates/service renders."""
