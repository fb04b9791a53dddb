"""What runs in a repository of the family and is not its owner's: the service, the batch job, the training."""
