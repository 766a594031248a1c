"""Hundreds of clients on one machine: fl_dp's engine beside Flower's and pfl-research's."""
