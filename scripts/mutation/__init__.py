"""Small random changes to fl_dp, one at a time, to see whether the fast tests notice them."""
