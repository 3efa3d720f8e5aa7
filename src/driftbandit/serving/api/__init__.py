"""HTTP: routes, bodies, errors, keys and metrics."""
