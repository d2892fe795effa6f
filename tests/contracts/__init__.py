"""One suite for the simulated cluster and for the real API server: what holds for one must hold for the other. Official client only."""
