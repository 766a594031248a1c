"""Small samples of the files that a version of fl_dp leaves: made once, then read by every later version."""
