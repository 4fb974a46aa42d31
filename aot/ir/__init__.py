"""The values that the stages pass on: tensor graph, loop graph, kernel graph, all immutable."""
