"""Flower started and stopped: simulations, `flwr run`, local deployments."""
