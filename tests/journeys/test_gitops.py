"""Argo CD or Flux deploys my overlay: docs/how-to/deploy-with-gitops.md."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/deploy-with-gitops.md"


def test_a_release_is_a_commit_in_the_overlay(child: Child) -> None:
    child.follow("1. Point the tool at the overlay")
    child.follow("2. Deploy a release")


def test_the_replicas_are_left_to_the_autoscaler(child: Child) -> None:
    child.follow("3. Leave the replicas to the autoscaler")
