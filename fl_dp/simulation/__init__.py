"""The only Ray code of fl_dp: a Flower Grid whose clients share warm processes."""
