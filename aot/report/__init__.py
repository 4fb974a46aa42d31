"""What the tools show: dumps, timings, explanations. Nothing here changes a result."""
