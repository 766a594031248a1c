"""Changes to fl_dp, each of which breaks a promise, to see whether the fast tests notice them."""
