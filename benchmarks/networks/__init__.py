"""Random networks beside eager: what a list of workloads does not show."""
