"""What runs in a repository made from the template and is not its owner's: the HTTP service around the model."""
