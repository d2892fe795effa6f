"""A kubelet and scheduler that play containers instead of running them; shared by the simulated cluster and the tests' real control plane."""
