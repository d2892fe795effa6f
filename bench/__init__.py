"""Measurements that anyone can repeat. Each prints ratios within one run, since machines differ and are noisy."""
