"""The only Flower code of fl_dp: what travels between server and clients, and who believes what."""
