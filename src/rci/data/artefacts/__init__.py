"""What each kind of artefact holds: episodes, labels, step costs, fitted models, estimates of policies."""
