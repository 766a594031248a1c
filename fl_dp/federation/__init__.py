"""The only Flower code of fl_dp: the messages between server and clients, and what each side verifies."""
