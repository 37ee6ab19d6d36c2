"""The client side: what runs where the data are."""
