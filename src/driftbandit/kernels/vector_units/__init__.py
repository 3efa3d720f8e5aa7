"""Short loops written for vector units, in instructions of the compiler behind Numba; `vectors` says why."""
