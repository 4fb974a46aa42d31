"""Random shapes of products, convolutions, attention and rows, beside eager."""
