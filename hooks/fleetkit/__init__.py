"""The fleet: a branch and a pull request for each child, and a look at its CI."""
