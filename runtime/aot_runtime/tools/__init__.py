"""What `aot-runtime` does on the machines that run packages: inspect, verify, run, time."""
