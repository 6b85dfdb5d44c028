"""The web labeler: people watch recorded episodes in a browser and press STOP."""
