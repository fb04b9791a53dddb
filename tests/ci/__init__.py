"""GitHub's and GitLab's pipelines of children, executed by local runners; README.md says what those leave out."""
